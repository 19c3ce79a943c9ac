"""What happened: events, and the small types that hang on them.

A trajectory is an append-only list of events. An event says who did what, when, why (`cause`: the
sequence number of the event that led to it), to whom, at what cost, and which tokens a model
sampled for it. Everything downstream (failure labels, rewards, training data) reads events and
nothing else. Times are logical (rounds): the same inputs give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

SCHEMA_VERSION = 2
"""Version of the journal's lines. A reader refuses a newer one.

2 (0.2): `action_result`, `start`; `run` of an action, `ends` of a message; `top_p`, `adapter` and
`rewrite` of tokens.
"""

EventKind = Literal[
    "message",  # a role, the user or the environment said something; `to` says to whom
    "thought",  # reasoning that a model gave apart from its answer
    "model_call",  # one completion: `content` its text, `data` prompt and finish reason
    "action",  # a role started an action: `data` has `action`, `index`, `run` and its `fields`
    "action_result",  # the action that is its `cause` ended: `data` has `result` or `cancelled`
    "tool_call",  # a tool was called: `data` has `tool`, `arguments`, `id`
    "tool_result",  # what it returned: `content`, `data` has `ok`; `cause` is the call
    "artifact",  # a named thing changed: `artifact` has its name and content hash
    "verify",  # somebody checked something: `data` has `target`, `passed` (None: unknown)
    "signal",  # something was measured: `data` has the fields of `Signal`
    "action_swap",  # a role's action list was replaced: `data` has `actions`, the new names
    "reset",  # a role's memory or conversation was cleared
    "truncate",  # part of a context was dropped
    "limit",  # a limit was crossed: `data` has `limit`, `allowed`, `used`, and the `decision`
    "approval",  # a person was asked for, or gave, permission
    "hire",  # a role was added to a run that had begun: `data` says of it what the header would
    "start",  # a run with a bound of its own began: `data` has `rounds`
    "resume",  # a stopped run went on
    "fork",  # a run branched off another: `data` has `trajectory` and `at`
    "note",  # an observer noted something: `data` has what it wants done (`do`), and more
    "error",  # an exception: `data` has `type`; `content` its text
    "stop",  # the run ended: `data` has `reason`, a `StopReason`, and an observer's `why`
]
EVENT_KINDS: frozenset[str] = frozenset(get_args(EventKind))

StopReason = Literal[
    "finished",  # the task's own end was reached
    "idle",  # nobody had anything left to do
    "rounds",  # the round limit was reached
    "limit",  # another limit was crossed
    "error",  # an exception ended the run
    "cancelled",  # the caller cancelled it
    "approval",  # an action waits for a person's permission
    "observer",  # an observer asked for the end
]


@dataclass(slots=True)
class Usage:
    """What model calls cost. `usd` is None where the price is unknown."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = None
    calls: int = 1
    cached_tokens: int = 0
    """Those of the prompt that the provider had read before, which mostly cost less."""

    def __add__(self, other: Usage) -> Usage:
        known = [usd for usd in (self.usd, other.usd) if usd is not None]
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            sum(known) if known else None,
            self.calls + other.calls,
            self.cached_tokens + other.cached_tokens,
        )


@dataclass(slots=True)
class Artifact:
    """A named thing that roles produce (a file, a document) and the hash of its content."""

    name: str
    sha256: str


@dataclass(slots=True)
class TokenSpan:
    """The tokens that one model call appended to a session's token sequence.

    A session's sequence is append-only: `given` tokens (prompt, tool results; never trained)
    start at position `start`, and `sampled` tokens follow, each with its natural log-probability
    under the distribution that it was drawn from. `support` holds, for each sampled token, the
    ids that could have been drawn, where the choice was restricted; None means all.
    """

    session: str
    start: int
    given: list[int]
    sampled: list[int]
    logprobs: list[float]
    version: int = 0
    """Policy version that sampled: 0 before the first update."""
    temperature: float = 1.0
    support: list[list[int] | None] | None = None
    top_p: float = 1.0
    """The nucleus that was asked for; below 1, `support` says what it left of each choice."""
    adapter: str = ""
    """Name of the adapter that sampled; empty for the base model."""
    rewrite: str = ""
    """What the chat template changed in earlier turns, so that its text no longer continues the
    sequence; empty if it does. With `start` 0 a new sequence began here, else the old one goes on.
    """


@dataclass(slots=True)
class Signal:
    """One measurement, with where it comes from.

    `source` is an environment, a tool, or a person who reports a consequence; never a judgement
    of the roles' own model. `time` is the round, `step` the sequence number of the event measured.
    """

    name: str
    value: float
    unit: str = ""
    source: str = "environment"
    time: int = 0
    role: str = ""
    step: int | None = None
    cost: float | None = None


@dataclass(slots=True)
class Event:
    """One thing that happened. `seq` is 0-based and set when the event is recorded."""

    kind: EventKind
    role: str = ""
    content: str = ""
    to: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    cause: int | None = None
    time: int = 0
    usage: Usage | None = None
    artifact: Artifact | None = None
    tokens: TokenSpan | None = None
    seq: int = -1


FindingVerdict = Literal["present", "absent", "unknown"]


@dataclass(slots=True)
class FailureFinding:
    """What a detector, a judge or a person says about one failure mode in one trajectory.

    `mode` is a concept id such as `verification.absent`. A `present` names its events (0-based
    seq) and quotes one of them verbatim, except for modes that are an absence, which name the
    event where the missing thing should have been. `confidence` is in [0, 1].
    """

    mode: str
    verdict: FindingVerdict
    events: tuple[int, ...] = ()
    role: str = ""
    quote: str = ""
    confidence: float | None = None
    source: str = ""
    reason: str = ""
