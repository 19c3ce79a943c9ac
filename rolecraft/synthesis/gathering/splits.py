"""Which tasks are for training and which for tests, so that the bugs of the two share no code.

A split is of the project's code, not of its tasks: the files are drawn in an order that only their
names decide, until those for tests have the share that was asked for of all lines that tests run.
More candidates, or another seed for them, move no file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Literal, get_args

from rolecraft.environments.task import Split
from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64
from rolecraft.synthesis.edits import python_of
from rolecraft.synthesis.plan import Plan

Unit = Literal[
    "file",  # a file of code is in one split
    "module",  # a folder of code is
    "function",  # a function or class at the top of a file is: splits share files, but not these
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
        self._known: dict[str, list[tuple[str, range]]] = {}
        weights: dict[str, float] = {}
        self._read = plan.reader()
        for path, lines in _lines(plan, self._read).items():
            for number in lines or (None,):
                of = self._unit_of(path, number)
                weights[of] = weights.get(of, 0.0) + (number is not None)
        self.units = _drawn(weights, held_out) if unit != "task" else {}
        """The split of each file, folder or function of code."""

    def of(self, task: str, changed: Mapping[str, Iterable[int]]) -> Split | None:
        """The split of a task that changes these lines of files; None if they lie in both."""
        if self.unit == "task":
            share = (hash64("synthesis-task", task) % 10_000) / 10_000
            return "test" if share < self.held_out else "train"
        units = {
            self._unit_of(path, number)
            for path, lines in changed.items()
            for number in lines or (None,)
        }
        splits = {self.units.get(unit, "train") for unit in units}
        return splits.pop() if len(splits) == 1 else None

    def _unit_of(self, path: str, line: int | None) -> str:
        if self.unit == "module":
            return str(PurePosixPath(path).parent)
        if self.unit == "function" and line is not None:
            for name, lines in self._functions(path):
                if line in lines:
                    return f"{path}::{name}"
        return path

    def _functions(self, path: str) -> list[tuple[str, range]]:
        """The functions and classes at the top of a file, with their lines; none but in Python."""
        if path not in self._known:
            self._known[path] = functions(self._read(path)) if path.endswith(".py") else []
        return self._known[path]


def functions(text: str) -> list[tuple[str, range]]:
    """The functions and classes at the top of Python code, with their lines. Some may share a name,
    such as the forms of one for two platforms.
    """
    try:
        body = ast.parse(python_of(text)).body
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: list[tuple[str, range]] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found.append((node.name, range(first, (node.end_lineno or first) + 1)))
    return found


def _lines(plan: Plan, read: Callable[[str], str]) -> dict[str, list[int]]:
    """Of each file of code: the lines that tests run, or all of its lines where that is unknown."""
    if plan.suite.seen_by:
        return {path: [*plan.suite.seen_by.get(path, ())] for path in plan.project.code}
    return {path: [*range(1, read(path).count("\n") + 1)] for path in plan.project.code}


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
