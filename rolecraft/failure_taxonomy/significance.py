"""Tests of significance for small samples, exact and without a library.

All p-values are two-sided. Counts are compared in whole numbers, so that nothing depends on
rounding.

- `fisher_exact`: two independent sets, how often something happened in each (Fisher 1935; the
  two-sided p sums all tables with the same margins that are no more probable than the one seen).
- `mcnemar_exact`: the same traces twice (McNemar 1947, in its binomial form; also the sign test).
- `wilcoxon_signed_rank`: paired scores (Wilcoxon 1945). Zeros are dropped, ties get their mean
  rank; the distribution over signs is counted out up to 100 pairs, and is normal with corrections
  for ties and continuity beyond.
- `holm`: corrects for having tested several things (Holm 1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rolecraft.errors import UsageError

EXACT = 100
"""Up to so many pairs `wilcoxon_signed_rank` counts out all signs."""


@dataclass(frozen=True, slots=True)
class Significance:
    """The outcome of a test: the two-sided p-value, on how much it rests, and which test it was.

    `n` is the number of traces of both sets, of pairs that differ, or of differences that are not
    zero; with `n` 0 there was nothing to test and p is 1.
    """

    p: float
    n: int
    test: str
    statistic: float = 0.0
    """Of `wilcoxon_signed_rank` the sum of the ranks of what grew; of the others the count that
    was tested."""


def fisher_exact(first: tuple[int, int], second: tuple[int, int]) -> Significance:
    """Compare two sets, each as (how often it happened, how often it did not)."""
    a, b, c, d = (_count(number) for number in (*first, *second))
    chosen = a + c
    low, high = max(0, chosen - c - d), min(chosen, a + b)
    weights = [math.comb(a + b, x) * math.comb(c + d, chosen - x) for x in range(low, high + 1)]
    seen = weights[a - low]
    extreme = sum(weight for weight in weights if weight <= seen)
    return Significance(_ratio(extreme, sum(weights)), a + b + c + d, "Fisher's exact test", a)


def mcnemar_exact(only_first: int, only_second: int) -> Significance:
    """Compare pairs of yes and no by those that differ: yes in the first only, in the second only.

    Under the null hypothesis each is as likely as the other.
    """
    first, second = _count(only_first), _count(only_second)
    n = first + second
    tail = sum(math.comb(n, x) for x in range(min(first, second) + 1))
    p = min(1.0, _ratio(2 * tail, 2**n))
    return Significance(p, n, "exact McNemar test", second)


def wilcoxon_signed_rank(differences: Iterable[float]) -> Significance:
    """Test whether paired differences (second less first) are symmetric about zero.

    Raises `UsageError` for a difference that is no finite number.
    """
    given = [float(each) for each in differences]
    if not all(map(math.isfinite, given)):
        raise UsageError(f"Paired differences are finite numbers, got {given!r}.")
    kept = [each for each in given if each != 0]
    n = len(kept)
    doubled = _doubled_ranks([abs(each) for each in kept])
    grown = sum(rank for rank, each in zip(doubled, kept, strict=True) if each > 0)
    if n <= EXACT:
        name, p = "Wilcoxon signed-rank test, exact", _exact_p(doubled, grown)
    else:
        name, p = "Wilcoxon signed-rank test, normal approximation", _normal_p(doubled, grown)
    return Significance(p, n, name, grown / 2)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for their number, in the same order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for place, index in enumerate(order):
        highest = max(highest, (len(p_values) - place) * p_values[index])
        adjusted[index] = min(1.0, highest)
    return adjusted


def _doubled_ranks(sizes: Sequence[float]) -> list[int]:
    """Twice the rank of each size from 1; equal ones share their mean rank."""
    order = sorted(range(len(sizes)), key=lambda index: sizes[index])
    ranks = [0] * len(sizes)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and sizes[order[end]] == sizes[order[start]]:
            end += 1
        for index in order[start:end]:
            ranks[index] = start + 1 + end  # twice the mean of start + 1 … end
        start = end
    return ranks


def _exact_p(doubled: Sequence[int], grown: int) -> float:
    """Twice the smaller tail of the sum of ranks over all ways to sign them."""
    ways = [1] + [0] * sum(doubled)
    reached = 0
    for rank in doubled:
        for total in range(reached, -1, -1):
            if ways[total]:
                ways[total + rank] += ways[total]
        reached += rank
    tail = min(sum(ways[: grown + 1]), sum(ways[grown:]))
    return min(1.0, _ratio(2 * tail, 2 ** len(doubled)))


def _normal_p(doubled: Sequence[int], grown: int) -> float:
    """Mean and variance are those of the ranks as they are, which corrects for ties."""
    spread = math.sqrt(sum(rank * rank for rank in doubled)) / 2
    away = max(0.0, abs(grown - sum(doubled) / 2) - 1)  # a step of the doubled sum is 2: half of it
    return min(1.0, math.erfc(away / spread / math.sqrt(2)))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _count(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise UsageError(f"What is tested are counts from 0, got {number!r}.")
    return number
