"""What a folder of synthesis holds, in figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import quantiles
from typing import Any

from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.difficulty.attempts import Attempt, pass_rates, read_attempts
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.row_files import ROWS
from rolecraft.synthesis.gathering.tasks import gathered_rows
from rolecraft.synthesis.ledger import read_ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.texts.alike import gist, repeated
from rolecraft.synthesis.verdicts import Verdict

BINS = 10
"""Of pass rates."""


@dataclass(slots=True)
class Spread:
    """How numbers are spread. All are None where there are no numbers."""

    least: float | None = None
    median: float | None = None
    p90: float | None = None
    """Nine tenths are not above it."""
    most: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        numbers = sorted(values)
        if not numbers:
            return cls()
        if len(numbers) == 1:
            return cls(*numbers * 4)
        tenths = quantiles(numbers, n=10, method="inclusive")
        return cls(numbers[0], tenths[4], tenths[8], numbers[-1])


@dataclass(slots=True)
class ModifierRow:
    """One kind of bug."""

    candidates: int = 0
    validated: int = 0
    valid: int = 0
    tasks: int = 0
    fail_to_pass: Spread = field(default_factory=Spread)
    """Of the valid ones."""


@dataclass(slots=True)
class SolverRow:
    """One solver."""

    attempts: int = 0
    resolved: int = 0
    """Of the attempts."""
    tasks: int = 0
    pass_rate: float | None = None
    """The mean over tasks of each one's share of attempts that solved it."""
    bins: list[int] = field(default_factory=lambda: [0] * BINS)
    """Tasks by pass rate, in ten equal parts from 0 to 1; 1 is in the last."""
    turns: float | None = None
    """The mean of an attempt: answers of its models."""
    usd: float | None = None
    """The mean of an attempt; None where a price is unknown."""


@dataclass(slots=True)
class Statistics:
    """All figures of a folder; what is not there yet is 0 or empty."""

    name: str
    tests: int
    """That pass in the clean code."""
    candidates: int = 0
    by_status: dict[str, int] = field(default_factory=dict)
    """Of what was validated."""
    tasks: int = 0
    by_split: dict[str, int] = field(default_factory=dict)
    alike: int = 0
    """Tasks whose text says what that of one before them says."""
    modifiers: dict[str, ModifierRow] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    """Tasks that change each file of code, most first."""
    fail_to_pass: dict[int, int] = field(default_factory=dict)
    """Valid candidates by the number of their failing tests."""
    f2p: Spread = field(default_factory=Spread)
    lines: Spread = field(default_factory=Spread)
    """Of the tasks' fixes."""
    solvers: dict[str, SolverRow] = field(default_factory=dict)

    @property
    def valid(self) -> int:
        return self.by_status.get("valid", 0)

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def statistics(folder: SynthesisFolder) -> Statistics:
    """The figures of a folder. Raises `UsageError` where there is no plan."""
    plan = Plan.load(folder)
    found = Statistics(plan.project.name, len(plan.suite.passing))
    modifiers: dict[str, str] = {}
    for candidate in read_ledger(folder.candidates, Candidate, key=lambda each: each.id):
        modifiers[candidate.id] = candidate.modifier
        found.modifiers.setdefault(candidate.modifier, ModifierRow()).candidates += 1
    found.candidates = len(modifiers)
    _add_verdicts(found, folder, modifiers)
    _add_tasks(found, folder)
    by_solver: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in read_attempts(folder):
        by_solver[attempt.solver].append(attempt)
    found.solvers = {solver: _solver(of) for solver, of in sorted(by_solver.items())}
    found.modifiers = dict(sorted(found.modifiers.items()))
    return found


def _add_verdicts(found: Statistics, folder: SynthesisFolder, modifiers: dict[str, str]) -> None:
    status: Counter[str] = Counter()
    failing: dict[str, list[int]] = defaultdict(list)
    for verdict in read_ledger(folder.verdicts, Verdict, key=lambda each: each.candidate):
        status[verdict.status] += 1
        name = modifiers.get(verdict.candidate, "")
        row = found.modifiers.setdefault(name, ModifierRow())
        row.validated += 1
        if verdict.is_valid:
            row.valid += 1
            failing[name].append(len(verdict.fail_to_pass))
    for name, numbers in failing.items():
        found.modifiers[name].fail_to_pass = Spread.of(numbers)
    every = [number for numbers in failing.values() for number in numbers]
    found.by_status = dict(status.most_common())
    found.fail_to_pass = dict(sorted(Counter(every).items()))
    found.f2p = Spread.of(every)


def _add_tasks(found: Statistics, folder: SynthesisFolder) -> None:
    if not (folder.tasks / ROWS).exists():
        return
    files: Counter[str] = Counter()
    splits: Counter[str] = Counter()
    lines: list[int] = []
    gists: Counter[bytes] = Counter()
    for row in gathered_rows(folder):
        files.update(row["files"])
        splits[row["split"]] += 1
        lines.append(row["n_lines"])
        gists[gist(row["problem_statement"])] += 1
        found.modifiers.setdefault(row["modifier"], ModifierRow()).tasks += 1
    found.tasks = len(lines)
    found.alike = repeated(gists)
    found.files = dict(sorted(files.items(), key=lambda pair: (-pair[1], pair[0])))
    found.by_split = dict(sorted(splits.items()))
    found.lines = Spread.of(lines)


def _solver(attempts: list[Attempt]) -> SolverRow:
    rates = pass_rates(attempts)
    resolved = sum(each.resolved for each in attempts)
    row = SolverRow(len(attempts), resolved, len(rates), sum(rates.values()) / len(rates))
    for rate in rates.values():
        row.bins[min(int(rate * BINS), BINS - 1)] += 1
    row.turns = sum(each.turns for each in attempts) / len(attempts)
    prices = [each.usd for each in attempts if each.usd is not None]
    row.usd = sum(prices) / len(prices) if len(prices) == len(attempts) else None
    return row
