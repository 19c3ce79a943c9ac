"""One run of an experiment: where it is recorded, whether it is over, and whether it was right.

Invariant: the journal is the only record. Whether a run is over, what it scored and what it cost
is read from it, so that an experiment that was killed knows the same as one that was not.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from rolecraft.environments.task import Task
from rolecraft.errors import TraceError
from rolecraft.experiments.variant import Variant
from rolecraft.failure_taxonomy.goals import Outcome
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.jsonl import load
from rolecraft.trajectories.trajectory import Trajectory

FAULTS = frozenset(
    {
        "ActionLimitReached",
        "InvalidAnswer",
        "PlanAbandoned",
        "ProtocolViolation",
        "StepLimitReached",
    }
)
"""Errors that are the team's own doing: such a run is over, and not right.

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
        """The task as this run plays it: with an id and a seed of its own, the same each time."""
        name = f"{self.task.id}-r{self.repetition}"
        return replace(self.task, id=name, seed=zlib.crc32(f"{seed}/{name}".encode()))


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

    @property
    def over(self) -> bool:
        return self.score is not None


def read(run: Run, variant: Variant) -> Played:
    """What is known of a run; not over where there is no journal of it, or a broken one."""
    if not run.journal.is_file():
        return Played(run, None)
    try:
        return judged(run, variant, load(run.journal))
    except TraceError:
        return Played(run, None)


def judged(run: Run, variant: Variant, trajectory: Trajectory) -> Played:
    """What a record says about a run."""
    stop = trajectory.stop_reason or ""
    return Played(run, _score(variant, trajectory, stop), stop, trajectory.usage)


def _score(variant: Variant, trajectory: Trajectory, stop: str) -> float | None:
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
    return variant.scenario.reward(trajectory).value


def file_name(text: str) -> str:
    """Text as a part of a path: `HumanEval/0` is `HumanEval-0`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "task"
