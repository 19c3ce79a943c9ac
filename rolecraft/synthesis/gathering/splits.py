"""Which tasks are for training and which for tests, so that the two share no code.

A split is of the project's code, not of its tasks: the files are drawn in an order that only their
names decide, until those for tests have the share that was asked for of all lines that tests run.
More candidates, or another seed for them, move no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Literal, get_args

from rolecraft.environments.task import Split
from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64
from rolecraft.synthesis.plan import Plan

Unit = Literal[
    "file",  # a file of code is in one split
    "module",  # a folder of code is
    "task",  # each task is drawn for itself, and the two splits share code
]
"""What is not torn apart."""


class Splits:
    """The splits of a project. Raises `UsageError` for a share or a unit that cannot be."""

    def __init__(self, plan: Plan, *, unit: Unit = "file", held_out: float = 0.2) -> None:
        if not 0 <= held_out <= 1:
            raise UsageError(f"`held_out` is {held_out!r}, expected a share from 0 to 1.")
        if unit not in get_args(Unit):
            raise UsageError(f"`unit` is {unit!r}, expected one of {[*get_args(Unit)]}.")
        self.unit, self.held_out = unit, held_out
        weights: dict[str, float] = {}
        for path, weight in _weights(plan).items():
            weights[self._unit_of(path)] = weights.get(self._unit_of(path), 0.0) + weight
        self.units = _drawn(weights, held_out) if unit != "task" else {}
        """The split of each file, or folder, of code."""

    def of(self, task: str, files: Iterable[str]) -> Split | None:
        """The split of a task that changes these files; None if they lie in both."""
        if self.unit == "task":
            share = (hash64("synthesis-task", task) % 10_000) / 10_000
            return "test" if share < self.held_out else "train"
        splits = {self.units.get(self._unit_of(path), "train") for path in files}
        return splits.pop() if len(splits) == 1 else None

    def _unit_of(self, path: str) -> str:
        return str(PurePosixPath(path).parent) if self.unit == "module" else path


def _weights(plan: Plan) -> dict[str, float]:
    """Of each file of code: the lines that tests run, or all of its lines where that is unknown."""
    if plan.suite.seen_by:
        return {path: float(len(plan.suite.seen_by.get(path, ()))) for path in plan.project.code}
    read: Callable[[str], str] = plan.reader()
    return {path: float(read(path).count("\n")) for path in plan.project.code}


def _drawn(weights: Mapping[str, float], held_out: float) -> dict[str, Split]:
    """Units are taken for tests while that brings their share nearer to what was asked for."""
    target = held_out * sum(weights.values())
    order = sorted(weights, key=lambda unit: (hash64("synthesis-split", unit), unit))
    taken: set[str] = set()
    held = 0.0
    for unit in order:
        if weights[unit] and abs(held + weights[unit] - target) < abs(held - target):
            taken.add(unit)
            held += weights[unit]
    some = [unit for unit in order if weights[unit]]
    if held_out and not taken and len(some) > 1:  # each alone is more than what was asked for
        taken.add(min(some, key=lambda unit: weights[unit]))
    return {unit: "test" if unit in taken else "train" for unit in weights}
