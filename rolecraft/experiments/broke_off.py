"""Runs that broke off, equal ones together: what was raised, how often, and where."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field

from rolecraft.experiments.runs import Run
from rolecraft.rollouts.where import place_of


@dataclass(frozen=True, slots=True)
class BrokeOff:
    """Runs that broke off for the same reason."""

    says: str
    """The type of the error and its message, in one line."""
    where: str
    """`FILE:LINE in FUNCTION` of the user's own code; empty where it is in none."""
    first: BaseException
    runs: list[Run] = field(default_factory=list)

    def in_words(self, mark: str = "`") -> str:
        """A sentence; paths stand between `mark`s."""
        journal = f"{mark}{self.runs[0].journal}{mark}"
        which = journal if len(self.runs) == 1 else f"such as {journal}"
        runs = "1 run" if len(self.runs) == 1 else f"{len(self.runs)} runs"
        where = f" ({self.where})" if self.where else ""
        return f"{runs} broke off, {which}: {self.says.removesuffix('.')}{where}"

    def traceback(self) -> str:
        """As Python prints it, of the first of them."""
        return "".join(traceback.format_exception(self.first)).rstrip()


def one_line(error: BaseException) -> str:
    """An error by its type and its message."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def broke_off(errors: Sequence[tuple[Run, BaseException]]) -> list[BrokeOff]:
    """Errors by what they say and where they come from, the most frequent first."""
    found: dict[tuple[str, str], BrokeOff] = {}
    for run, error in errors:
        says, where = one_line(error), place_of(error)
        found.setdefault((says, where), BrokeOff(says, where, error)).runs.append(run)
    return sorted(found.values(), key=lambda each: -len(each.runs))
