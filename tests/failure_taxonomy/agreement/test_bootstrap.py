"""Resampling of whole traces, and the intervals from it."""

from __future__ import annotations

import random

import pytest

from rolecraft.failure_taxonomy.agreement.bootstrap import interval, mean_interval, resampled


def share(sums: tuple[int, ...]) -> float | None:
    return sums[0] / sums[1] if sums[1] else None


def test_each_resample_draws_as_many_rows_as_there_are() -> None:
    rows = [(1, 0, 7), (0, 1, 7), (0, 1, 7)]
    for first, second, third in resampled(rows, resamples=50, seed=0):
        assert first + second == 3
        assert third == 21


def test_columns_of_one_row_are_drawn_together() -> None:
    rows = [(i, 2 * i, 3 * i) for i in range(20)]
    for a, b, c in resampled(rows, resamples=50, seed=0):
        assert (b, c) == (2 * a, 3 * a)


def test_large_counts_do_not_run_over() -> None:
    rows = [(2**20, 1, 2**20)] * 3000
    assert list(resampled(rows, resamples=1, seed=0)) == [(3000 * 2**20, 3000, 3000 * 2**20)]


def test_the_interval_of_a_share_is_the_one_of_theory() -> None:
    """120 of 400: 0.3 with standard error 0.0229, so about 0.255 to 0.345."""
    rows = [(1, 1)] * 120 + [(0, 1)] * 280
    found = mean_interval(rows, share, resamples=4000, seed=1)
    assert found == pytest.approx((0.255, 0.345), abs=0.005)


def test_the_same_seed_gives_the_same_interval_and_another_another() -> None:
    draw = random.Random(0)
    rows = [(draw.randrange(2), 1) for _ in range(99)]
    one = mean_interval(rows, share, resamples=200, seed=3)
    assert one == mean_interval(rows, share, resamples=200, seed=3)
    assert one != mean_interval(rows, share, resamples=200, seed=4)


def test_an_interval_needs_more_than_half_of_its_values() -> None:
    assert interval([0.5, None]) is None
    assert interval([]) is None
    assert interval([0.0, 1.0, None]) == pytest.approx((0.025, 0.975))
    assert interval([float(i) for i in range(1001)]) == pytest.approx((25.0, 975.0))
    assert list(resampled([], resamples=9, seed=0)) == []
