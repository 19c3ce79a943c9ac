"""Means over tasks with their intervals, pass@k, and differences of pairs.

Tasks are the sample: what is drawn again in a bootstrap is a task with all its attempts, so that
eight attempts at one task are not taken for eight tasks. All intervals are for 95 %.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.agreement.bootstrap import interval
from rolecraft.failure_taxonomy.planting import wilson
from rolecraft.failure_taxonomy.significance import (
    Significance,
    mcnemar_exact,
    wilcoxon_signed_rank,
)

RESAMPLES = 2000
FEWEST = 20
"""Below so many tasks a bootstrap over tasks is too narrow, and Wilson's interval is taken."""

Method = Literal[
    "wilson",  # Wilson's score interval (1927) of a share of the tasks
    "bootstrap",  # percentiles of the mean of tasks that were drawn again (Efron 1979)
    "none",  # too little to say anything
]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over tasks, and where it lies with 95 % confidence."""

    value: float | None
    low: float | None
    high: float | None
    method: Method
    tasks: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "interval": self.method,
            "tasks": self.tasks,
        }


def mean_of(values: Sequence[float], *, seed: int = 0) -> Mean:
    """The mean of one value a task.

    Of yes and no, and of few tasks, or ones that are all alike, the interval is Wilson's with one
    observation a task: values within 0 and 1 vary no more than yes and no of the same mean do, so
    it is then too wide rather than too narrow. Otherwise it is a bootstrap's; where values lie
    outside 0 and 1 there are no bounds to take Wilson's for, and few or equal ones have none.
    """
    n = len(values)
    if not n:
        return Mean(None, None, None, "none", 0)
    mean = math.fsum(values) / n
    alike = all(value == values[0] for value in values)
    within = all(0 <= value <= 1 for value in values)
    if within and (alike or n < FEWEST or all(value in (0, 1) for value in values)):
        low, high = wilson(mean * n, n)  # a share of tasks in part: the formula is the same
        return Mean(mean, low, high, "wilson", n)
    if alike or n < FEWEST:
        return Mean(mean, None, None, "none", n)
    found = interval(_means(values, seed))
    assert found is not None
    return Mean(mean, *found, "bootstrap", n)


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """The chance that of `k` attempts at a task at least one succeeds, without bias.

    `1 - C(n - c, k) / C(n, k)` for `c` successes in `n` attempts: equation 1 of Chen et al. 2021
    (arXiv 2107.03374). Raises `UsageError` where k is not from 1 to `attempts`.
    """
    if not 1 <= k <= attempts:
        raise UsageError(f"pass@{k} wants at least {k} attempts at each task, and has {attempts}.")
    if not 0 <= successes <= attempts:
        raise UsageError(f"{successes} of {attempts} attempts cannot have succeeded.")
    return 1 - math.comb(attempts - successes, k) / math.comb(attempts, k)


@dataclass(frozen=True, slots=True)
class Difference:
    """Second less first, over the tasks that both have."""

    pairs: int
    value: float | None
    low: float | None
    high: float | None
    test: Significance | None
    only_first: int = 0
    """Tasks in which the first was the better."""
    only_second: int = 0


def difference(
    first: Mapping[str, float], second: Mapping[str, float], *, seed: int = 0
) -> Difference:
    """Compare two by their value for each task, paired by the task.

    Where each value is yes or no, by the exact McNemar test, else by Wilcoxon's for signed ranks;
    the interval is that of a bootstrap of pairs, and there is none of fewer than `FEWEST` pairs or
    where all differ alike.
    """
    pairs = [(first[task], second[task]) for task in first if task in second]
    if not pairs:
        return Difference(0, None, None, None, None)
    gains = [after - before for before, after in pairs]
    only_first, only_second = sum(each < 0 for each in gains), sum(each > 0 for each in gains)
    if all(value in (0, 1) for pair in pairs for value in pair):
        test = mcnemar_exact(only_first, only_second)
    else:  # rounded, so that equal differences are equal, which their ranks depend on
        test = wilcoxon_signed_rank(round(each, 9) for each in gains)
    low = high = None
    if len(gains) >= FEWEST and any(each != gains[0] for each in gains):
        found = interval(_means(gains, seed))
        assert found is not None
        low, high = found
    mean = math.fsum(gains) / len(gains)
    return Difference(len(pairs), mean, low, high, test, only_first, only_second)


def _means(values: Sequence[float], seed: int) -> list[float]:
    draw = random.Random(f"tasks/{seed}")
    n = len(values)
    return [math.fsum(draw.choices(values, k=n)) / n for _ in range(RESAMPLES)]
