"""A folder of feedback: what was answered, the reward that was fitted to it, and every decision.

DIR/feedback.jsonl    answers, a line each, appended
DIR/decisions.jsonl   what came of each fit, appended
DIR/reward/           the reward in force: `load_learned(DIR / "reward")`
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.rewards.learned.asking import Pair, pairs_to_ask, runs_to_rate
from rolecraft.rewards.learned.directions import Direction, directions
from rolecraft.rewards.learned.embedding import Embedding
from rolecraft.rewards.learned.feedback import (
    FEEDBACK,
    Label,
    append_feedback,
    in_force,
    read_feedback,
)
from rolecraft.rewards.learned.guided import (
    DECISIONS,
    Decision,
    GuidedReward,
    TrustSettings,
    runs_of,
)
from rolecraft.rewards.learned.learned_reward import LearnedReward
from rolecraft.rewards.learned.net import NetSettings
from rolecraft.rewards.learned.observation import FEATURES, Observation
from rolecraft.rewards.learned.saving import REWARD, load_learned, save_learned


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user says of signals themselves; "either" lets feedback decide."""

    higher: Collection[str] = ()
    lower: Collection[str] = ()
    either: Collection[str] = ()

    def over(self, known: Sequence[Direction]) -> tuple[Direction, ...]:
        """`known` directions, changed and added to by these. Raises `UsageError`."""
        said = directions(self.either, higher=self.higher, lower=self.lower)
        if unclear := sorted(set(self.either) & {*self.higher, *self.lower}):
            raise UsageError(f"`{unclear[0]}` cannot be better either way and one way.")
        either = {Direction(name) for name in self.either}  # of features too, which else are costs
        changed = {each.name: each for each in (*known, *said, *either)}
        return tuple(changed[name] for name in sorted(changed))


@dataclass(frozen=True, slots=True)
class FitReport:
    """What a fit came to. `before` is the reward that was in force, None if there was none."""

    decision: Decision
    before: LearnedReward | None
    reward: LearnedReward
    anew: bool
    """Whether it looks at other signals than before, so that no trust region could bind it."""
    unseen: tuple[str, ...]
    """What runs measured and the reward does not look at."""


class FeedbackFolder:
    """Answers and the reward that they lead to. `problems` are lines that could not be read."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.feedback = self.path / FEEDBACK
        self.rewards = self.path / "reward"
        self.problems: list[str] = []

    def labels(self) -> list[Label]:
        """Every answer, in their order. Broken lines are named in `problems`."""
        self.problems = []
        return read_feedback(self.feedback, problems=self.problems)

    def add(self, *labels: Label) -> None:
        """Append answers. Raises `JournalError` if the disk refuses."""
        append_feedback(self.feedback, labels)

    def reward(self, embedding: Embedding | None = None) -> LearnedReward | None:
        """The reward in force; None before the first fit. Raises what `load_learned` raises."""
        if not (self.rewards / REWARD).exists():
            return None
        return load_learned(self.rewards, embedding=embedding)

    def pairs(self, runs: Sequence[Observation], count: int, *, seed: int = 0) -> list[Pair]:
        """Pairs to ask about, best first; see `pairs_to_ask`."""
        if not (reward := self._looking_at(runs)):
            return []
        return pairs_to_ask(reward, runs, count, answered=self._answered(), seed=seed)

    def to_rate(self, runs: Sequence[Observation], count: int) -> list[Observation]:
        """Runs to ask about one by one; see `runs_to_rate`."""
        reward = self._looking_at(runs)
        return runs_to_rate(reward, runs, count, answered=self._answered()) if reward else []

    def fit(
        self,
        runs: Iterable[Observation] = (),
        *,
        goal: str | None = None,
        wishes: Wishes | None = None,
        embedding: Embedding | None = None,
        trust: TrustSettings | None = None,
        seed: int = 0,
    ) -> FitReport:
        """Fit to all answers, and put the reward in force unless it has to be rolled back.

        `runs` are the replay set of the trust region, beside those that answers are about. Without
        `goal` it is the one that all answers name; where they name several, each run's own. Raises
        `UsageError` if there is nothing to fit to.
        """
        labels = in_force(self.labels())
        if not labels:
            raise UsageError(f"Nothing is answered in `{self.feedback}`: there is nothing to fit.")
        seen = {run.run: run for label in labels for run in runs_of(label)}
        replay = list({**seen, **{run.run: run for run in runs}}.values())
        measured = _signals(replay)
        before = self.reward(embedding)
        known = before.settings.directions if before else directions(measured)
        wanted = (wishes or Wishes()).over(known)
        if goal is None:
            goals = {run.goal for label in labels for run in runs_of(label)}
            goal = goals.pop() if len(goals) == 1 else None
        anew = before is None or wanted != before.settings.directions
        start = (
            LearnedReward.untrained(
                NetSettings(wanted, seed=seed), replay, embedding=embedding, goal=goal or None
            )
            if before is None or anew
            else before.with_goal(goal or None)
        )
        log = self.path / DECISIONS
        guided = GuidedReward(start, labels=labels, replay=replay, trust=trust, seed=seed, log=log)
        decision = guided.learn()
        if decision.outcome in ("accepted", "shortened"):
            save_learned(guided.reward, self.rewards)
        looked_at = {each.name for each in wanted}
        unseen = tuple(name for name in measured if name not in looked_at)
        return FitReport(decision, before, guided.reward, anew, unseen)

    def _looking_at(self, runs: Sequence[Observation]) -> LearnedReward | None:
        """The reward in force, else one that only knows what the runs have measured."""
        if found := self.reward():
            return found
        names = _signals(runs)
        return LearnedReward.untrained(NetSettings(directions(names)), runs) if names else None

    def _answered(self) -> set[tuple[str, ...]]:
        return {label.question for label in self.labels()}


def _signals(runs: Sequence[Observation]) -> list[str]:
    """What was measured in runs. Features are looked at only where the user names them."""
    return sorted({name for run in runs for name in run.values if name not in FEATURES})
