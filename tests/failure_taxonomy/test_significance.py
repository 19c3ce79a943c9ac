"""Tests of significance agree with published tables and worked examples."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.significance import (
    fisher_exact,
    holm,
    mcnemar_exact,
    wilcoxon_signed_rank,
)

# Critical values of the smaller sum of ranks, two-sided, as printed in textbooks.
CRITICAL = {
    0.05: {6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 16: 29, 17: 34,
           18: 40, 19: 46, 20: 52, 25: 89},
    0.01: {8: 0, 9: 1, 10: 3, 11: 5, 12: 7, 13: 9, 14: 12, 15: 15, 16: 19, 17: 23, 18: 27, 19: 32,
           20: 37, 25: 68},
}  # fmt: skip


def with_sum(n: int, shrunk: int) -> list[float]:
    """Differences 1 to n of which those that shrank have this sum of ranks."""
    signs = dict.fromkeys(range(1, n + 1), 1.0)
    for rank in range(n, 0, -1):
        if rank <= shrunk:
            signs[rank], shrunk = -1.0, shrunk - rank
    assert shrunk == 0
    return [rank * sign for rank, sign in signs.items()]


@pytest.mark.parametrize(
    ("alpha", "n", "critical"),
    [(alpha, n, value) for alpha, rows in CRITICAL.items() for n, value in rows.items()],
)
def test_wilcoxon_has_the_critical_values_of_the_tables(
    alpha: float, n: int, critical: int
) -> None:
    assert wilcoxon_signed_rank(with_sum(n, critical)).p <= alpha
    assert wilcoxon_signed_rank(with_sum(n, critical + 1)).p > alpha


def test_wilcoxon_on_a_worked_example() -> None:
    """Hollander and Wolfe (1973), depression scores before and after: T+ = 5, p = 0.039."""
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    found = wilcoxon_signed_rank(b - a for a, b in zip(before, after, strict=True))
    assert found.statistic == 5
    assert found.p == pytest.approx(20 / 512)
    assert found.n == 9
    assert "exact" in found.test


def test_wilcoxon_drops_zeros_and_shares_ranks_among_ties() -> None:
    """With ties and zeros: the same as counting out all signs by hand."""
    differences = [1.0, 1.0, -1.0, 0.0, 2.0, 2.0, 0.0, 3.0]
    kept = [each for each in differences if each]
    ranks = {1.0: 2.0, 2.0: 4.5, 3.0: 6.0}
    seen = sum(ranks[abs(each)] for each in kept if each > 0)
    sums = [
        sum(ranks[abs(each)] for each, sign in zip(kept, signs, strict=True) if sign)
        for signs in itertools.product((0, 1), repeat=len(kept))
    ]
    tail = min(sum(s <= seen for s in sums), sum(s >= seen for s in sums))
    found = wilcoxon_signed_rank(differences)
    assert found.p == pytest.approx(min(1.0, 2 * tail / len(sums)))
    assert (found.n, found.statistic) == (6, seen)


def test_wilcoxon_on_nothing_that_differs_says_nothing() -> None:
    assert (wilcoxon_signed_rank([]).p, wilcoxon_signed_rank([0, 0, 0.0]).p) == (1.0, 1.0)
    assert wilcoxon_signed_rank([0, 0]).n == 0
    with pytest.raises(UsageError, match="finite"):
        wilcoxon_signed_rank([1.0, math.nan])


def test_the_normal_form_of_wilcoxon_meets_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(4)
    differences = [draw.choice([-3, -2, -1, 1, 2, 3]) for _ in range(90)]
    exact = wilcoxon_signed_rank(differences)
    monkeypatch.setattr("rolecraft.failure_taxonomy.significance.EXACT", 10)
    normal = wilcoxon_signed_rank(differences)
    assert "normal" in normal.test
    assert normal.p == pytest.approx(exact.p, rel=0.02)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        ((3, 1), (1, 3), 34 / 70),  # Fisher's tea
        ((2, 10), (15, 3), 0.0005367),  # Fisher's twins
        ((0, 5), (0, 7), 1.0),
        ((0, 0), (3, 2), 1.0),
        ((5, 0), (0, 5), 2 / 252),
    ],
)
def test_fisher_on_worked_examples(
    first: tuple[int, int], second: tuple[int, int], p: float
) -> None:
    assert fisher_exact(first, second).p == pytest.approx(p, rel=1e-3)
    assert fisher_exact(second, first).p == pytest.approx(p, rel=1e-3)


def test_fisher_sums_the_tables_that_are_as_rare() -> None:
    for a, b, c, d in itertools.product(range(5), repeat=4):
        n, k = a + b, a + c
        odds = {
            x: Fraction(math.comb(n, x) * math.comb(c + d, k - x), math.comb(n + c + d, k))
            for x in range(k + 1)
            if x <= n and k - x <= c + d
        }
        expected = sum(p for p in odds.values() if p <= odds[a])
        assert fisher_exact((a, b), (c, d)).p == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(150, 86, 3.716e-05), (0, 0, 1.0), (1, 1, 1.0), (0, 5, 0.0625), (0, 6, 0.03125)],
)
def test_mcnemar_on_worked_examples(first: int, second: int, p: float) -> None:
    """The first is Agresti's on approval of the prime minister."""
    assert mcnemar_exact(first, second).p == pytest.approx(p, rel=1e-3)
    assert mcnemar_exact(second, first).p == pytest.approx(p, rel=1e-3)


def test_counts_must_be_counts() -> None:
    for wrong in (-1, 1.5, True):
        with pytest.raises(UsageError, match="counts from 0"):
            fisher_exact((wrong, 1), (1, 1))  # type: ignore[arg-type]


def test_holm_corrects_step_by_step() -> None:
    """Holm's own procedure: 0.01 x 4, 0.02 x 3, then never less than what came before."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
