"""From a trajectory's model calls to token sequences that can be trained on.

Invariant: a training sequence is the token sequence of one session, exactly as the model saw and
sampled it. Given tokens (prompts, what tools and other roles said) are never actions; nor are
tokens that were forced or sampled at temperature 0, because where there was no choice there is
nothing to learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rolecraft.errors import RolecraftError
from rolecraft.trajectories.events import TokenSpan
from rolecraft.trajectories.trajectory import Trajectory


class BrokenSequence(RolecraftError):
    """The token spans of a session do not fit together."""


@dataclass(slots=True)
class TrainingSequence:
    """One session's tokens, with what the loss needs to know about each.

    All lists are as long as `ids`. At positions that are no actions, `logprobs` is 0,
    `temperatures` 1 and `support` None.
    """

    name: str
    """Trajectory and session: names the sequence in messages."""
    role: str
    ids: list[int] = field(default_factory=list)
    action_mask: list[bool] = field(default_factory=list)
    """True where the policy chose the token: the loss mask."""
    logprobs: list[float] = field(default_factory=list)
    """Natural log-probability with which each action was drawn."""
    temperatures: list[float] = field(default_factory=list)
    support: list[list[int] | None] = field(default_factory=list)
    """Ids among which each action was drawn; None means the whole vocabulary."""
    advantage: float = 0.0
    """Of every action of the sequence."""
    greedy: int = 0
    """Tokens that were sampled at temperature 0: the likeliest one is no random choice."""
    version: int | None = None
    """Oldest policy version that sampled any of it."""
    adapters: list[str] = field(default_factory=list)
    """Names of the adapters that sampled, each once; the base model is the empty name."""
    rewrite: str = ""
    """Why it is a sequence of its own: what the chat template changed; empty for a first one."""

    def append(self, span: TokenSpan) -> None:
        """Add the tokens of one model call. Raises `BrokenSequence`."""
        self._check(span)
        if not self.ids:
            self.rewrite = span.rewrite
        if span.adapter not in self.adapters:
            self.adapters.append(span.adapter)
        given, sampled = len(span.given), len(span.sampled)
        support = span.support or [None] * sampled
        greedy = span.temperature <= 0
        chosen = [not greedy and (allowed is None or len(allowed) > 1) for allowed in support]
        self.ids += span.given
        self.ids += span.sampled
        self.action_mask += [False] * given
        self.action_mask += chosen
        self.logprobs += [0.0] * given
        self.logprobs += span.logprobs
        self.temperatures += [1.0] * given
        self.temperatures += [1.0 if greedy else span.temperature] * sampled
        self.support += [None] * given
        self.support += support
        self.greedy += sampled if greedy else 0
        if self.version is None or span.version < self.version:
            self.version = span.version

    def _check(self, span: TokenSpan) -> None:
        if span.start != len(self.ids):
            raise BrokenSequence(
                f"Sequence `{self.name}`: a model call says that it starts at token {span.start}, "
                f"but {len(self.ids)} tokens are known. Events are missing or out of order."
            )
        lengths = {len(span.sampled), len(span.logprobs), len(span.support or span.sampled)}
        if len(lengths) > 1:
            raise BrokenSequence(
                f"Sequence `{self.name}`: {len(span.sampled)} sampled tokens, "
                f"{len(span.logprobs)} log-probabilities, support of "
                f"{len(span.support or span.sampled)}. They must be equally many."
            )


def training_sequences(trajectory: Trajectory, *, name: str = "") -> list[TrainingSequence]:
    """The token sequences of a trajectory's model calls, in order of their first call.

    Calls without tokens (of API models, of test doubles, of frozen roles) are left out: they
    cannot be trained. `name` stands for the trajectory in messages, its id by default. Raises
    `BrokenSequence` if a session's spans leave a gap or overlap.
    """
    found: dict[tuple[str, str], TrainingSequence] = {}
    for event in trajectory.of("model_call"):
        span = event.tokens
        if span is None:
            continue
        key = (event.role, span.session)
        if key not in found:
            label = f"{name or trajectory.id}:{span.session}"
            found[key] = TrainingSequence(label, event.role)
        found[key].append(span)
    return list(found.values())


def actions(sequences: Sequence[TrainingSequence]) -> int:
    """How many action tokens the sequences hold together."""
    return sum(sum(sequence.action_mask) for sequence in sequences)
