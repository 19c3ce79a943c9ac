"""Moving advantage to the turns at fault: a pure function of one episode's turns.

A team that failed is punished together, whoever was at fault. Where that is known, a share of what
the others are punished with goes to the turns at fault; and where the team earned an advantage in
spite of them, a share of theirs goes to the others.

Invariants: no turn is moved by more than `most`; who is at fault never gains, nobody else loses;
without `charge`, where all turns of the episode are punished none is paid, and where all are paid
none is punished; what is taken is given, unless `conserve` is off.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.modes import get_mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """How far failures that are attributed to a role and a step move advantage there."""

    share: float = 0.5
    """Of the punishment of turns that are not at fault, and of the advantage of those that are: how
    much is moved."""
    charge: float = 0.0
    """Taken from each turn at fault besides, and given to the others in equal parts, also where the
    group says nothing because every attempt failed. It can make an advantage of a punishment, but
    none above `most`."""
    most: float = 1.0
    """No turn's advantage is moved by more, in units of advantage."""
    conserve: bool = True
    """Whether the sum over an episode's turns stays what it is. If not, the bound `most` cuts off
    single turns instead of scaling all that is moved."""
    modes: Collection[str] | None = None
    """Failure modes that count; None: all."""
    findings: Literal["all", "decisive"] = "decisive"
    """All failures from which the run did not recover, or the first of them only."""
    confidence: float = 0.5
    """Findings that are less sure count for nothing; those that do not say are as sure as that."""

    def __post_init__(self) -> None:
        for name in ("share", "confidence"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(
                    f"`Blame({name}=...)` wants a number from 0 to 1, got {getattr(self, name)!r}."
                )
        if not 0 <= self.charge <= self.most < math.inf:
            raise UsageError(
                f"`Blame` wants 0 <= charge <= most, got charge {self.charge!r} and most "
                f"{self.most!r}."
            )
        if self.findings not in ("all", "decisive"):
            raise UsageError(
                f"`Blame(findings=...)` is 'all' or 'decisive', got {self.findings!r}."
            )
        if isinstance(self.modes, str):
            raise UsageError(f"`Blame(modes=...)` wants a list of modes, got {self.modes!r}.")
        for mode in self.modes or ():
            get_mode(mode)


def moved(advantages: Sequence[float], at_fault: Sequence[bool], *, blame: Blame) -> list[float]:
    """What is added to the advantage of each turn of an episode.

    With A the advantages, F the turns at fault and N the others, before the bound:

        f of F:  - share max(0,  A_f) - (sum over N of share max(0, -A_n)) / |F| - charge
        n of N:  + share max(0, -A_n) + (sum over F of share max(0,  A_f)) / |N| + charge |F| / |N|

    which add up to 0. Where all turns are at fault, or none is, nothing moves.
    """
    guilty, others = sum(at_fault), len(at_fault) - sum(at_fault)
    if not guilty or not others:
        return [0.0] * len(advantages)
    pairs = list(zip(advantages, at_fault, strict=True))
    taken = [blame.share * max(0.0, a) for a, fault in pairs if fault]
    given = [blame.share * max(0.0, -a) for a, fault in pairs if not fault]
    punishment = sum(given) / guilty + blame.charge
    reward = sum(taken) / others + blame.charge * guilty / others
    shifts = [
        -blame.share * max(0.0, a) - punishment if fault else blame.share * max(0.0, -a) + reward
        for a, fault in pairs
    ]
    largest = max(map(abs, shifts))
    if largest <= blame.most:
        return shifts
    if blame.conserve:
        return [shift * (blame.most / largest) for shift in shifts]
    return [max(-blame.most, min(blame.most, shift)) for shift in shifts]
