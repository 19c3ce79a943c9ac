"""The outer level: a reward that a user guides, one batch of answers at a time.

Each `learn` fits a new reward and lets it take the place of the old one as far as it may:

1. *trust region*: on the replay set no value moves by more than `delta`; where the fit wants
   more, the weights go only a part of the way;
2. *examination*: on labels that no fit sees, the new reward must not predict worse than the old
   one by more than `tolerance` nats a label; else it is rolled back.

Every decision is returned and, with a `log`, appended to a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rolecraft.errors import UsageError
from rolecraft.rewards.learned.asking import Pair, pairs_to_ask
from rolecraft.rewards.learned.examination import Examination, examine
from rolecraft.rewards.learned.feedback import Label, Preference, held_out, in_force
from rolecraft.rewards.learned.fitting import between, fit
from rolecraft.rewards.learned.learned_reward import LearnedReward
from rolecraft.rewards.learned.observation import Observation
from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.codec import encode_line

DECISIONS = "decisions.jsonl"

Outcome = Literal[
    "accepted",  # the new reward is in force
    "shortened",  # it is, but the trust region let it go only a part of the way
    "rolled back",  # it predicted held-out labels worse; the old reward stays
    "unchanged",  # there was nothing to fit
]


@dataclass(frozen=True, slots=True)
class TrustSettings:
    """How far one fit may go. `delta` is in log-odds of a preference, `tolerance` in nats."""

    delta: float = 2.0
    tolerance: float = 0.05
    examined: int = 4
    """Held-out labels from which on the examination counts: fewer say nothing."""

    def __post_init__(self) -> None:
        if self.delta <= 0 or self.tolerance < 0 or self.examined < 1:
            raise UsageError("`delta` is above 0, `tolerance` at least 0, `examined` at least 1.")


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of one batch of answers."""

    outcome: Outcome
    fitted: int
    """Labels that were fitted to."""
    before: Examination
    """What the reward in force before says of the held-out labels."""
    after: Examination
    """What the new one says of them, also if it was rolled back."""
    share: float = 1.0
    """How far the weights went towards the fit."""
    largest_change: float = 0.0
    """Of a value on the replay set."""

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


class GuidedReward:
    """A learned reward, the labels it is fitted to, and the runs on which it may not jump.

    `replay` is the set of the trust region; without it the runs of the labels are. The first fit is
    bound by no trust region: the prior is nothing that a policy was trained on.
    """

    def __init__(
        self,
        reward: LearnedReward,
        *,
        labels: Iterable[Label] = (),
        replay: Sequence[Observation] = (),
        trust: TrustSettings | None = None,
        seed: int = 0,
        log: Path | str | None = None,
    ) -> None:
        self.reward = reward
        self.labels = list(labels)
        self.replay = list(replay)
        self.trust = trust or TrustSettings()
        self.seed = seed
        self.decisions: list[Decision] = []
        self._log = None if log is None else Path(log)

    def ask(self, runs: Sequence[Observation], count: int) -> list[Pair]:
        """The pairs of `runs` on which the members disagree most and nobody has answered."""
        answered = {label.question for label in self.labels}
        return pairs_to_ask(self.reward, runs, count, answered=answered, seed=len(self.labels))

    def learn(self, labels: Iterable[Label] = ()) -> Decision:
        """Add labels and fit. Raises `JournalError` if the log cannot be written."""
        self.labels += labels
        known = in_force(self.labels)
        examined = [label for label in known if held_out(label)]
        fitted = [label for label in known if not held_out(label)]
        decision, reward = self._decide(fitted, examined)
        if self._log is not None:
            file = AppendFile(self._log, wait=True)
            try:
                file.append(encode_line({"fits": reward.fits, **decision.record()}))
            finally:
                file.close()
        self.decisions.append(decision)
        self.reward = reward
        return decision

    def _decide(
        self, fitted: Sequence[Label], examined: Sequence[Label]
    ) -> tuple[Decision, LearnedReward]:
        old = self.reward
        before = examine(old, examined)
        if not fitted:
            return Decision("unchanged", 0, before, before, share=0.0), old
        new = fit(old, fitted, seed=self.seed)
        share = self._share(old, new, fitted) if old.fits else 1.0
        if share < 1.0:
            new = between(old, new, share)
        after = examine(new, examined)
        change = self._change(old, new, self._replayed(fitted))
        outcome: Outcome = "accepted" if share == 1.0 else "shortened"
        enough = after.labels >= self.trust.examined
        if old.fits and enough and after.nats > before.nats + self.trust.tolerance:
            return Decision("rolled back", len(fitted), before, after, share, change), old
        return Decision(outcome, len(fitted), before, after, share, change), new

    def _share(self, old: LearnedReward, new: LearnedReward, fitted: Sequence[Label]) -> float:
        """The largest share of the way, to 1/1024, that the bisection finds within `delta`."""
        runs = self._replayed(fitted)
        if self._change(old, new, runs) <= self.trust.delta:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(10):
            middle = (low + high) / 2
            inside = self._change(old, between(old, new, middle), runs) <= self.trust.delta
            low, high = (middle, high) if inside else (low, middle)
        return low

    def _replayed(self, fitted: Sequence[Label]) -> Sequence[Observation]:
        return self.replay or [run for label in fitted for run in runs_of(label)]

    @staticmethod
    def _change(old: LearnedReward, new: LearnedReward, runs: Sequence[Observation]) -> float:
        pairs = zip(old.values(runs), new.values(runs), strict=True)
        return max((abs(was - now) for was, now in pairs), default=0.0)


def runs_of(label: Label) -> tuple[Observation, ...]:
    """The runs that a label is about."""
    return (label.a, label.b) if isinstance(label, Preference) else (label.run,)
