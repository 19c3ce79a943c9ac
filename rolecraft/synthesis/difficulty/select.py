"""Subsets of tasks: by how often they were solved, by size, by tests, by kind of bug.

wanted = Wanted(pass_rate=Range(0.2, 0.8), lines=Range(None, 10))
rows = [*select(folder, wanted)]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from rolecraft.errors import UnknownName, UsageError
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.difficulty.attempts import attempts_by_task
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.tasks import gathered_rows
from rolecraft.synthesis.ledger import read_ledger
from rolecraft.trajectories.in_words import count


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, both included; None is no bound. Raises `UsageError` if there
    is none.
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise UsageError(f"No number is from {self.low:g} to {self.high:g}.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """`0.2:0.8`, `:10`, `3:` or `1`. Raises `UsageError` for what is none of these."""
        low, colon, high = text.partition(":")
        try:
            first = float(low) if low else None
            last = (float(high) if high else None) if colon else first
        except ValueError:
            first = last = None
        if first is None and last is None:
            raise UsageError(f"{text!r} is no range: write LOW:HIGH, LOW:, :HIGH or one number.")
        return cls(first, last)

    def __contains__(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low == self.high is not None:
            return f"{self.low:g}"
        return ":".join("" if each is None else f"{each:g}" for each in (self.low, self.high))


ALL = Range()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a task has to be like. Each bound holds for itself."""

    pass_rate: Range | None = None
    """The share of attempts that solved it, from 0 to 1. A task without attempts has none, and is
    in no range.
    """
    solver: str = ""
    """Whose attempts count; unless given everybody's but those of stand-ins."""
    fail_to_pass: Range = ALL
    lines: Range = ALL
    """Of the fix; a line that is changed counts once."""
    files: Range = ALL
    """So many files the fix changes."""
    modifiers: tuple[str, ...] = ()
    """Names or patterns (`op-*`), one of which it matches."""
    split: str = ""

    def __post_init__(self) -> None:
        ends = (self.pass_rate.low, self.pass_rate.high) if self.pass_rate is not None else ()
        if any(end is not None and not 0 <= end <= 1 for end in ends):
            raise UsageError(f"A pass rate is from 0 to 1: {str(self.pass_rate)!r} is none.")

    def missed(self, row: dict[str, Any]) -> list[str]:
        """The bounds that a row does not keep, as the options of `rolecraft synth select` are
        called; its `pass_rate` is that of the `solver`.
        """
        rate = row["pass_rate"]
        kept = {
            "pass-rate": self.pass_rate is None or (rate is not None and rate in self.pass_rate),
            "f2p": row["n_fail_to_pass"] in self.fail_to_pass,
            "lines": row["n_lines"] in self.lines,
            "files": row["n_files"] in self.files,
            "split": self.split in ("", row["split"]),
            "modifier": not self.modifiers
            or any(fnmatchcase(row["modifier"], each) for each in self.modifiers),
        }
        return [bound for bound, holds in kept.items() if not holds]

    def has(self, row: dict[str, Any]) -> bool:
        """Whether a row is wanted; its `pass_rate` is that of the `solver`."""
        return not self.missed(row)


def select(folder: SynthesisFolder, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """The gathered rows that are wanted, with the pass rates that are known now.

    Raises `UsageError` where there are no tasks, and where a pass rate is asked for and no attempt
    was recorded; `UnknownName` for a modifier that no candidate is of.
    """
    _check_modifiers(folder, wanted)
    return (row for row in _rated(folder, wanted) if wanted.has(row))


def why_none(folder: SynthesisFolder, wanted: Wanted) -> str:
    """How many tasks there are, and how many of them each bound leaves out: a sentence."""
    tasks, untried, missed = 0, 0, Counter[str]()
    for row in _rated(folder, wanted):
        tasks += 1
        bounds = wanted.missed(row)
        untried += "pass-rate" in bounds and row["pass_rate"] is None
        missed.update(bounds)
    more = {"pass-rate": f" ({untried:,} untried)"} if untried else {}
    told = ", ".join(
        f"`--{bound}` {number:,}{more.get(bound, '')}" for bound, number in missed.most_common()
    )
    return f"None of {count(tasks, 'task')}: left out by {told}."


def _check_modifiers(folder: SynthesisFolder, wanted: Wanted) -> None:
    """A pattern may match nothing; a name that is none was mistyped."""
    names = [each for each in wanted.modifiers if not any(sign in each for sign in "*?[")]
    if not names:
        return
    there = {row["modifier"] for row in gathered_rows(folder)}
    if all(name in there for name in names):
        return
    candidates = read_ledger(folder.candidates, Candidate, key=lambda each: each.id)
    there |= {candidate.modifier for candidate in candidates}
    for name in names:
        if name not in there:
            raise UnknownName(
                "modifier", name, there, hint="These are the modifiers of the folder's candidates."
            )


def _rated(folder: SynthesisFolder, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """All gathered rows, with the pass rates that are known now."""
    tried = attempts_by_task(folder, wanted.solver)
    if wanted.pass_rate is not None and not tried:
        others = "a solver other than Rolecraft's stand-ins"
        whose = repr(wanted.solver) if wanted.solver else others
        raise UsageError(
            f"No attempt of {whose} was recorded in `{folder.path}`: `rolecraft synth difficulty "
            f"{folder.path}` has a solver play the tasks."
        )
    for row in gathered_rows(folder):
        of = tried.get(row["instance_id"], [])
        row["attempts"] = len(of)
        row["pass_rate"] = sum(each.resolved for each in of) / len(of) if of else None
        yield row
