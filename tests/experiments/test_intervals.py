"""Means with intervals, pass@k and paired differences, by hand and by brute force."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.experiments.intervals import difference, mean_of, pass_at_k


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_all_choices_of_k_attempts_with_a_success(
    n: int, data: st.DataObject
) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    outcomes = [True] * c + [False] * (n - c)
    chosen = list(itertools.combinations(outcomes, k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))


def test_pass_at_k_is_not_the_biased_estimate() -> None:
    """1 - (1 - c/n)^k is too low: for 1 of 4 and k = 2 it gives 7/16, and half is right."""
    assert pass_at_k(4, 1, 2) == 0.5
    product = math.prod(1 - 100 / i for i in range(191, 201))  # as the paper's program has it
    assert pass_at_k(200, 10, 100) == pytest.approx(1 - product)
    assert (pass_at_k(3, 0, 3), pass_at_k(3, 1, 3), pass_at_k(3, 3, 1)) == (0, 1, 1)


@pytest.mark.parametrize(("n", "c", "k"), [(2, 1, 3), (2, 1, 0), (2, 3, 1), (2, -1, 1)])
def test_pass_at_k_of_what_cannot_be_is_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(UsageError):
        pass_at_k(n, c, k)


def test_of_yes_and_no_the_interval_is_wilsons() -> None:
    found = mean_of([1.0] * 8 + [0.0] * 2)
    assert (found.value, found.method, found.tasks) == (0.8, "wilson", 10)
    # By the formula with z = 1.959964.
    assert (found.low, found.high) == (
        pytest.approx(0.49016, abs=1e-5),
        pytest.approx(0.94332, 1e-5),
    )


def test_of_tasks_in_part_many_have_a_bootstrap_and_few_have_wilsons() -> None:
    few = mean_of([0.5, 0.25, 1.0])
    assert few.method == "wilson"
    many = mean_of([0.5, 0.25, 1.0, 0.75] * 10)
    assert many.method == "bootstrap"
    assert many == mean_of([0.5, 0.25, 1.0, 0.75] * 10)
    assert many.low is not None
    assert many.high is not None
    # The standard error is 0.2795 / sqrt(40); a percentile interval is about 1.96 of it each way.
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.2795 / math.sqrt(40), rel=0.1)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_without_any_variance_there_is_still_an_interval(value: float) -> None:
    found = mean_of([value] * 40)
    assert found.method == "wilson"
    assert found.low is not None
    assert found.high is not None
    assert found.low <= value <= found.high
    assert found.high - found.low > 0.05


def test_rewards_beyond_0_and_1_have_no_interval_where_there_are_few() -> None:
    assert mean_of([2.0, -1.0]).method == "none"
    assert mean_of([2.0, -1.0] * 20).method == "bootstrap"
    assert mean_of([]).value is None


def test_a_difference_of_yes_and_no_is_tested_by_mcnemar() -> None:
    first = {f"t{n}": float(n < 2) for n in range(10)}
    second = {f"t{n}": float(1 <= n < 9) for n in range(10)} | {"only in one": 1.0}
    found = difference(first, second)
    assert (found.pairs, found.only_first, found.only_second) == (10, 1, 7)
    assert found.value == pytest.approx(0.6)
    assert found.test is not None
    assert found.test.test == "exact McNemar test"
    # 2 * (C(8,0) + C(8,1)) / 2**8
    assert found.test.p == pytest.approx(18 / 256)
    assert found.low is None  # ten pairs are too few for a bootstrap


def test_a_difference_of_shares_is_tested_by_wilcoxon_and_has_a_bootstrap_of_pairs() -> None:
    first = {f"t{n}": (n % 3) / 4 for n in range(30)}
    second = {f"t{n}": (n % 3) / 4 + 0.25 * (n % 2) for n in range(30)}
    found = difference(first, second)
    assert found.test is not None
    assert found.test.test.startswith("Wilcoxon")
    assert (found.test.n, found.only_second) == (15, 15)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 0.125 <= found.high


def test_what_never_differs_is_not_significant_and_what_shares_no_task_is_not_compared() -> None:
    same = {"a": 1.0, "b": 1.0}
    found = difference(same, same)
    assert found.test is not None
    assert (found.value, found.test.p, found.test.n) == (0.0, 1.0, 0)
    assert difference({"a": 1.0}, {"b": 1.0}).test is None
