"""The steps of a training as a table that grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolecraft.training import StepRecord

ROWS = 100
"""So many steps are shown of a training; its curve has all."""
_ROLE = 10
"""Characters of a role's name."""
_MOST_ROLES = 3


class TrainTable:
    """Rows of a training of `steps` steps by a team of these `roles`."""

    def __init__(self, roles: Sequence[str], steps: int) -> None:
        self._roles = list(roles)[:_MOST_ROLES] if len(roles) > 1 else []
        self._every = max(1, math.ceil(steps / ROWS))
        self._steps = steps
        columns = ["step", "reward", *(role[:_ROLE] for role in self._roles)]
        columns += ["entropy", "KL", "clipped", "stuck", "unfin.", "stale", "dropped", "seconds"]
        self._widths = [max(len(name), 7) for name in columns]
        self.head = self._line(columns)

    def row(self, record: StepRecord) -> str | None:
        """The row of a step; None for one that is not shown."""
        if record.step % self._every and record.step + 1 < self._steps:
            return None
        cells = [str(record.step + 1), _number(record.reward, ".3f")]
        cells += [_number(record.roles.get(role, math.nan), ".3f") for role in self._roles]
        cells += [
            _number(record.entropy, ".3f"),
            _number(record.kl, ".1e"),
            _number(record.clip_fraction, ".3f"),
            _number(record.stuck, ".2f"),
            _number(record.unfinished, ".2f"),
            str(record.staleness_max),
            str(record.dropped),
            _number(record.cost.seconds, ".2f"),
        ]
        return self._line(cells)

    def _line(self, cells: Sequence[str]) -> str:
        return "  ".join(cell.rjust(width) for cell, width in zip(cells, self._widths, strict=True))


def beyond_chance(rewards: Sequence[float], *, window: int = 10) -> bool:
    """Whether the last steps are better than the first by over two standard errors.

    How much a step's reward is chance is estimated from the differences of successive steps (von
    Neumann's estimate of the variance), which a curve that rises does not mislead.
    """
    known = [reward for reward in rewards if math.isfinite(reward)]
    if len(known) < 3:
        return False
    scatter = fmean((one - next_) ** 2 for one, next_ in pairwise(known)) / 2
    last = known[-window:]
    return fmean(last) - known[0] > 2 * math.sqrt(scatter * (1 + 1 / len(last)))


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "-"
