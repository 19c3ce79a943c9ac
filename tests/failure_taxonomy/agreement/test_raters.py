"""Several annotators: Fleiss' kappa, pairs, the majority, and who contradicts whom."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.agreement import Counts, fleiss, kappa
from rolecraft.failure_taxonomy.agreement.raters import by_trace, majority, rater_agreement
from rolecraft.failure_taxonomy.labels import Blame, Labels

Says = Callable[..., Labels]


def test_fleiss_by_hand() -> None:
    """Three raters, items 3:0, 0:3, 2:1, 1:2: agreement 2/3, chance 1/2, so 1/3."""
    assert fleiss([(3, 0), (0, 3), (2, 1), (1, 2)]) == pytest.approx(1 / 3)
    assert fleiss([(3, 0), (0, 3)]) == 1
    assert fleiss([(1, 1), (1, 1)]) == -1


def test_fleiss_without_anything_to_compare_is_none() -> None:
    assert fleiss([]) is None
    assert fleiss([(1, 0), (0, 1), (0, 0)]) is None
    assert fleiss([(3, 0), (3, 0)]) is None


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 40))
def test_fleiss_of_two_raters_with_the_same_habits_is_cohens_kappa(
    both: int, apart: int, neither: int
) -> None:
    items = [(2, 0)] * both + [(1, 1)] * (2 * apart) + [(0, 2)] * neither
    assert fleiss(items) == pytest.approx(kappa(Counts(both, apart, apart, neither)))


def test_annotators_are_compared_all_and_in_pairs(says: Says) -> None:
    rows = [
        says("ada", "1", reset="+", repetition="-"),
        says("bob", "1", reset="+", repetition="-"),
        says("eve", "1", reset="-", repetition="?"),
        says("ada", "2", reset="-", repetition="+"),
        says("bob", "2", reset="-", repetition="-"),
        says("ada", "3", reset="-"),
    ]
    found = rater_agreement(by_trace(rows))
    assert found is not None
    assert (found.annotators, found.traces) == (("ada", "bob", "eve"), 2)
    assert found.pairs["ada", "bob"] == pytest.approx(kappa(Counts(tp=1, fn=1, tn=2)))
    # Trace 1 is 2:1 and trace 2 is 0:2 on `reset`: agreement (1/3 + 1) / 2, present 2 of 5.
    assert found.by_mode["reset"] == pytest.approx((2 / 3 - 13 / 25) / (1 - 13 / 25))
    assert found.fleiss == pytest.approx(fleiss([(2, 1), (0, 2), (0, 2), (1, 1)]))
    assert "derailment" not in found.by_mode
    assert rater_agreement(by_trace(rows[-1:])) is None


def test_the_majority_decides_and_a_tie_leaves_it_open(says: Says) -> None:
    three = [
        says("ada", "1", ("coder", 3), reset="+", repetition="+", derailment="-"),
        says("bob", "1", ("coder", 4), reset="+", repetition="-", derailment="?"),
        says("eve", "1", ("planner", 4), reset="-", repetition="?"),
    ]
    found = majority(three)
    assert [found.verdict(m) for m in ("reset", "repetition", "derailment", "withholding")] == [
        "present",
        "unknown",
        "absent",
        None,
    ]
    assert found.decisive == Blame("coder", 4)
    assert found.annotator == "majority of ada, bob, eve"
    assert majority(three[:1]) is three[0]
    assert majority([three[0], three[2]]).decisive is None


def test_the_same_twice_is_once_and_a_contradiction_is_refused(says: Says) -> None:
    row = says("ada", "1", reset="+")
    assert by_trace([row, says("ada", "1", reset="+")]) == {"1": {"ada": row}}
    with pytest.raises(UsageError, match=r"'ada' labelled the trace '1' twice, and differently"):
        by_trace([row, says("ada", "1", reset="-")])
    with pytest.raises(UsageError, match="twice"):
        by_trace([says("ada", "1", ("a", 1)), says("ada", "1", ("a", 2))])
