"""Calibration: stated confidence against how often the verdict is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.failure_taxonomy.agreement.calibration import (
    calibration,
    expected_error,
    risk_coverage,
)
from rolecraft.failure_taxonomy.labels import Labels

SURE = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30)


def test_the_error_by_hand() -> None:
    """Bins of 1/15: 0.95 twice (one right) and 0.5 once (right): (2·0.45 + 0.5) / 3."""
    assert expected_error([(0.95, True), (0.95, False), (0.5, True)]) == pytest.approx(1.4 / 3)
    assert expected_error([(1.0, True), (0.0, False)]) == 0
    assert expected_error([(1.0, False)]) == 1


def test_a_bin_holds_its_upper_end() -> None:
    """In two bins, 0.5 belongs to the lower one: with 0.4 it makes up for 0.4's error."""
    assert expected_error([(0.5, False), (0.5, True)], bins=2) == 0
    assert expected_error([(0.5, False), (0.51, True)], bins=2) == pytest.approx(0.99 / 2)


def test_fifteen_bins_are_not_ten() -> None:
    """0.61 and 0.69 share one of ten bins, but not one of fifteen (0.6 to 0.667 to 0.733)."""
    sure = [(0.61, True), (0.69, False)]
    assert expected_error(sure, bins=10) == pytest.approx(0.15)
    assert expected_error(sure) == pytest.approx((0.39 + 0.69) / 2)


def test_risk_and_coverage_by_hand() -> None:
    sure = [(0.9, True), (0.9, False), (0.8, True), (0.2, False)]
    assert risk_coverage(sure) == ((0.5, 0.5), (0.75, 1 / 3), (1.0, 0.5))


@given(SURE)
def test_at_full_coverage_the_risk_is_the_share_of_errors(sure: list[tuple[float, bool]]) -> None:
    coverage, risk = risk_coverage(sure)[-1]
    assert coverage == 1
    assert risk == pytest.approx(sum(not right for _, right in sure) / len(sure))
    assert 0 <= expected_error(sure) <= 1


def test_confidence_is_of_the_verdict_and_only_decided_cells_count(
    says: Callable[..., Labels],
) -> None:
    gold = says(
        "ada", "1", reset="-", repetition="+", derailment="-", withholding="?", role_spec="-"
    )
    said = says(
        "bot", "1",
        reset=("-", 0.9), repetition=("-", 0.8), derailment=("?", 0.7), withholding=("+", 0.6),
        role_spec="-",
    )  # fmt: skip
    found = calibration([(gold, said)])
    assert found is not None
    assert (found.n, found.without) == (2, 1)
    assert found.ece == pytest.approx((0.1 + 0.8) / 2)
    assert found.curve == ((0.5, 0.0), (1.0, 0.5))
    assert found.aurc == pytest.approx(0.25)
    assert calibration([(gold, gold)]) is None
