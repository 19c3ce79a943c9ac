"""One run of an experiment: where it is recorded, whether it is over, and whether it was right.

Invariant: the journal is the only record. Whether a run is over, what it scored and what it cost
is read from it, so that an experiment that was killed knows the same as one that was not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rolecraft.environments.task import Task
from rolecraft.errors import JournalError, TraceError
from rolecraft.experiments.variant import Variant
from rolecraft.failure_taxonomy.goals import Outcome
from rolecraft.rewards.breakdown import RewardBreakdown
from rolecraft.rollouts import endings
from rolecraft.rollouts.attempts import as_attempt
from rolecraft.trajectories.codec import encode_line
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.jsonl import load
from rolecraft.trajectories.timings import timings_path
from rolecraft.trajectories.trajectory import Trajectory
from rolecraft.trajectories.whole_file import write_whole

FAULTS = frozenset(kind.__name__ for kind in endings.FAULTS)
"""Errors that are the team's own doing, as journals name them: such a run is over, and not right.

Any other error (no answer from a provider, no sandbox) says nothing about the team.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run that shall be: a variant on a task for the n-th time, from 1."""

    variant: str
    task: Task
    repetition: int
    journal: Path

    def as_task(self, seed: int) -> Task:
        """The task as this run plays it: with a seed of its own, the same each time."""
        return as_attempt(self.task, self.repetition, seed)


@dataclass(frozen=True, slots=True)
class Played:
    """A run as its journal tells it.

    `score` is 1 if the task was done and 0 if not, or the reward where the environment does not
    measure whether it was; None for a run that is not over.
    """

    run: Run
    score: float | None
    stop: str = ""
    usage: Usage = field(default_factory=lambda: Usage(calls=0, usd=0.0))
    seconds: float | None = None
    """Wall time from its beginning to its end; None where nobody took it in one piece."""
    error: Exception | None = None
    """What its reward raised: such a run is open, and cost what it cost."""

    @property
    def over(self) -> bool:
        return self.score is not None

    @property
    def to_play(self) -> bool:
        """Whether there is something to play; of a run that wants a reward only, there is not."""
        return not self.over and self.error is None


def read(run: Run, variant: Variant, raised: Exception | None = None) -> Played:
    """What is known of a run; not over where there is no journal of it, or a broken one.

    Nor is a run for which the reward raises. Of one that was played just now and `raised` it is
    not asked a second time.
    """
    if not run.journal.is_file():
        return Played(run, None)
    try:
        trajectory = load(run.journal)
    except TraceError:
        return Played(run, None)
    try:
        return judged(run, variant, trajectory, raised)
    except Exception as error:  # rewards are code of users; this one says nothing of other runs
        stop = trajectory.stop_reason or ""
        return Played(run, None, stop, trajectory.usage, error=error)


def judged(
    run: Run,
    variant: Variant,
    trajectory: Trajectory,
    reward: RewardBreakdown | Exception | None = None,
) -> Played:
    """What a record says about a run.

    `reward` is its reward, or what that raised, if it was asked already. Raises what the reward
    raises.
    """
    stop = trajectory.stop_reason or ""
    seconds = max((timing.at for timing in trajectory.timings.values()), default=None)
    score = _score(variant, trajectory, stop, reward)
    return Played(run, score, stop, trajectory.usage, seconds)


def timed(played: Played, trajectory: Trajectory, seconds: float) -> Played:
    """The same with its wall time, which is kept beside the journal: see `Stopwatch`.

    A run that was gone on with has none: nobody knows how long its first part took. Raises
    `JournalError` if the disk refuses.
    """
    path = timings_path(played.run.journal)
    if not trajectory.events or any(trajectory.of("resume")) or path.exists():
        return played
    seconds = round(seconds, 6)
    last = {"seq": trajectory.events[-1].seq, "at": seconds}
    ended = datetime.now(UTC)
    began = (ended - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        write_whole(path, encode_line({"began": began}) + encode_line(last))
    except OSError as error:
        raise JournalError(path, f"cannot be written: {error.strerror or error}") from error
    return replace(played, seconds=seconds)


def _score(
    variant: Variant,
    trajectory: Trajectory,
    stop: str,
    reward: RewardBreakdown | Exception | None,
) -> float | None:
    if not stop or stop == "cancelled":
        return None
    if stop == "error":
        errors = [event.data.get("type") for event in trajectory.of("error")]
        return 0.0 if errors and errors[-1] in FAULTS else None
    measured = {signal.name: signal.value for signal in trajectory.signals}
    if not measured:
        return None
    outcome = Outcome.of(trajectory.about)
    if outcome.signal in measured:
        return float(outcome.bounds.hold(measured[outcome.signal]) is True)
    if isinstance(reward, Exception):
        raise reward
    return (reward or variant.scenario.reward(trajectory)).value


def file_name(text: str) -> str:
    """Text as a part of a path: `HumanEval/0` is `HumanEval-0`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "task"
