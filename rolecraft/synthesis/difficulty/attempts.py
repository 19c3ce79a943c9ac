"""Attempts of solvers at tasks: a line each in `pass_rates.jsonl`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rolecraft.environments.software_engineering.examples.solvers import STAND_INS
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger, read_ledger
from rolecraft.trajectories.trajectory import Trajectory

BUILT_IN = ("reference", "nothing")
"""Solvers that try the tasks and not a model: one knows the solutions, one does nothing. In records
they are called as `STAND_INS` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a solver at a task. A line of the ledger `pass_rates.jsonl`."""

    task: str
    """Its id."""
    solver: str
    """A model, or what stands in for one."""
    number: int
    """From 1: which of the solver's attempts at this task; 0 of one that was played elsewhere."""
    resolved: bool
    turns: int = 0
    """Answers that its models gave."""
    usd: float | None = None
    """What it took, in US dollars; None where a price is unknown."""
    record: str = ""
    """The digest of its journal, by which it is known wherever that lies; empty without one."""
    stand_in: bool = False
    """Whether one of `STAND_INS` played it, whatever `solver` says."""

    @property
    def key(self) -> str:
        """What tells it from all others."""
        if not self.number:
            return self.record
        return "\t".join((self.task, str(self.number), self.solver))

    @property
    def tells_difficulty(self) -> bool:
        """Whether it says something about how hard the task is, which no stand-in's does."""
        return not self.stand_in and self.solver not in (*BUILT_IN, *STAND_INS)


def attempt_of(
    played: Trajectory, task: str, solver: str, number: int, *, record: str = ""
) -> Attempt | None:
    """What a record says of an attempt; None where it was not graded."""
    measured = {signal.name: signal.value for signal in played.signals}
    if "resolved" not in measured:
        return None
    return Attempt(
        task=task,
        solver=solver,
        number=number,
        resolved=measured["resolved"] >= 1,
        turns=played.usage.calls,
        usd=played.usage.usd,
        record=record,
        stand_in=is_stand_in(played),
    )


def models_of(played: Trajectory) -> set[str]:
    """The names of those that its roles asked."""
    return {str(event.data.get("model") or "") for event in played.of("model_call")} - {""}


def is_stand_in(played: Trajectory) -> bool:
    """Whether one of `STAND_INS` was asked, and no model."""
    return not models_of(played).isdisjoint(STAND_INS)


def digest_of(journal: Path) -> str:
    """What a record is known by: runs that differ in anything have another. Empty without one."""
    return hashlib.sha256(journal.read_bytes()).hexdigest() if journal.exists() else ""


def _key(attempt: Attempt) -> str:
    return attempt.key


def open_attempts(folder: SynthesisFolder) -> Ledger[Attempt]:
    """The ledger, to add to. Raises what `Ledger` does."""
    return Ledger(folder.pass_rates, Attempt, key=_key)


def read_attempts(folder: SynthesisFolder) -> Iterator[Attempt]:
    """Those that are recorded; none where there is no such file."""
    return read_ledger(folder.pass_rates, Attempt, key=_key)


def attempts_by_task(folder: SynthesisFolder, solver: str = "") -> dict[str, list[Attempt]]:
    """Those that a task's pass rate is of: one solver's, or of all that are no stand-ins."""
    found: dict[str, list[Attempt]] = {}
    for attempt in read_attempts(folder):
        if attempt.solver == solver or (not solver and attempt.tells_difficulty):
            found.setdefault(attempt.task, []).append(attempt)
    return found


def pass_rates(attempts: Iterable[Attempt], solver: str | None = None) -> dict[str, float]:
    """By task the share of attempts that solved it, from 0 to 1: of one solver, or of all."""
    solved: dict[str, list[bool]] = {}
    for attempt in attempts:
        if solver in (None, attempt.solver):
            solved.setdefault(attempt.task, []).append(attempt.resolved)
    return {task: sum(each) / len(each) for task, each in solved.items()}
