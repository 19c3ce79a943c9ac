"""From a trajectory's model calls to token sequences that can be trained on.

Invariant: a training sequence is the token sequence of one session, exactly as the model saw and
sampled it. Given tokens (prompts, what tools and other roles said) are never actions; nor are
tokens that were forced or sampled at temperature 0, because where there was no choice there is
nothing to learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rolecraft.errors import RolecraftError
from rolecraft.trajectories.events import TokenSpan
from rolecraft.trajectories.trajectory import Trajectory


class BrokenSequence(RolecraftError):
    """The token spans of a session do not fit together."""


class Turn(NamedTuple):
    """One model call within a sequence."""

    event: int
    """Sequence number of its `model_call` event."""
    start: int
    """Position of the first token that it sampled."""
    stop: int
    """Position after the last."""


@dataclass(slots=True)
class TrainingSequence:
    """One session's tokens, with what the loss needs to know about each.

    All lists but `turns` and `adapters` are as long as `ids`; `values` and `returns` are empty
    without a critic. At positions that are no actions, `advantages`, `values` and `returns` are 0,
    and nothing else there counts: given tokens have log-probability 0, temperature 1 and support
    None, tokens that were forced or sampled at temperature 0 what was recorded of them.
    """

    name: str
    """Trajectory and session: names the sequence in messages."""
    role: str
    ids: list[int] = field(default_factory=list)
    action_mask: list[bool] = field(default_factory=list)
    """True where the policy chose the token: the loss mask."""
    logprobs: list[float] = field(default_factory=list)
    """Natural log-probability with which each token was drawn."""
    temperatures: list[float] = field(default_factory=list)
    support: list[list[int] | None] = field(default_factory=list)
    """Ids among which each action was drawn; None means the whole vocabulary."""
    advantages: list[float] = field(default_factory=list)
    """Of each token; at positions that are no actions it is 0."""
    values: list[float] = field(default_factory=list)
    """What the critic expected before each action: `Trainer.value` fills it."""
    returns: list[float] = field(default_factory=list)
    """What the critic should have expected there."""
    cut_off: bool = False
    """A limit ended the episode behind it, and a critic is to say what would have followed."""
    after: float = 0.0
    """What the critic expected behind the last token, if it was `cut_off`; 0: nothing follows."""
    turns: list[Turn] = field(default_factory=list)
    """The model calls that it consists of, in order."""
    greedy: int = 0
    """Tokens that were sampled at temperature 0: the likeliest one is no random choice."""
    version: int | None = None
    """Oldest policy version that sampled any of it."""
    adapters: list[str] = field(default_factory=list)
    """Names of the adapters that sampled, each once; the base model is the empty name."""
    rewrite: str = ""
    """Why it is a sequence of its own: what the chat template changed; empty for a first one."""

    def append(self, span: TokenSpan, event: int = -1) -> None:
        """Add the tokens of one model call, the event of that number. Raises `BrokenSequence`."""
        self._check(span)
        if not self.ids:
            self.rewrite = span.rewrite
        if span.adapter not in self.adapters:
            self.adapters.append(span.adapter)
        given, sampled = len(span.given), len(span.sampled)
        support = span.support or [None] * sampled
        greedy = span.temperature <= 0
        begin = len(self.ids) + given
        self.turns.append(Turn(event, begin, begin + sampled))
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
        self.advantages += [0.0] * (given + sampled)
        self.greedy += sampled if greedy else 0
        if self.version is None or span.version < self.version:
            self.version = span.version

    @property
    def given_length(self) -> int:
        """How many tokens stand before the last action: what a model reads to score all actions.

        0 if there is no action.
        """
        actions = self.action_mask
        return len(actions) - 1 - actions[::-1].index(True) if True in actions else 0

    def credit(self, advantage: float, turn: Turn | None = None) -> None:
        """Give every action the same advantage: those of the whole sequence, or of one turn."""
        begin, end = (0, len(self.ids)) if turn is None else (turn.start, turn.stop)
        self.advantages[begin:end] = [
            advantage if action else 0.0 for action in self.action_mask[begin:end]
        ]

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
        found[key].append(span, event.seq)
    return list(found.values())


def actions(sequences: Sequence[TrainingSequence]) -> int:
    """How many action tokens the sequences hold together."""
    return sum(sum(sequence.action_mask) for sequence in sequences)
