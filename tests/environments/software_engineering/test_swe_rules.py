"""The rules of SWE-bench 5, case by case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.environments.software_engineering import Grade, resolved_share
from rolecraft.environments.software_engineering.rules import (
    KEPT,
    MENDED,
    Tests,
    outcome_of,
    parted,
    verdict_of,
)
from rolecraft.sandboxes.test_reports import OUTCOMES

MENDS = {"passed": True, "xfailed": True, "skipped": False, "failed": False, "error": False}
KEEPS = {"passed": True, "xfailed": True, "skipped": True, "failed": False, "error": False}


@pytest.mark.parametrize(("outcome", "good"), [*MENDS.items(), ("xpassed", False), (None, False)])
def test_what_mends(outcome, good) -> None:
    outcomes = {} if outcome is None else {"t": outcome}
    assert parted(["t"], outcomes, MENDED).all_passed is good


@pytest.mark.parametrize(("outcome", "good"), [*KEEPS.items(), ("xpassed", False), (None, False)])
def test_what_keeps(outcome, good) -> None:
    outcomes = {} if outcome is None else {"t": outcome}
    assert parted(["t"], outcomes, KEPT).all_passed is good


@pytest.mark.parametrize(
    ("mended", "broken", "kept", "lost", "verdict"),
    [
        (2, 0, 2, 0, "full"),
        (1, 0, 0, 0, "full"),
        (1, 1, 2, 0, "partial"),
        (0, 2, 2, 0, "no"),
        (2, 0, 1, 1, "no"),
        (1, 1, 1, 1, "no"),
        (0, 0, 2, 0, "no"),  # SWE-smith 0.0.9 takes 0 of 0 for all
        (0, 0, 0, 0, "no"),
    ],
)
def test_verdicts(mended, broken, kept, lost, verdict) -> None:
    first = Tests(("t",) * mended, ("t",) * broken)
    assert verdict_of(first, Tests(("t",) * kept, ("t",) * lost)) == verdict


CUT = {"t.py::test[a b]": "passed", "t.py::test[a c]": "passed", "t.py::test[b d]": "failed"}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("t.py::test[a", "passed"),
        ("t.py::test[b", "failed"),
        ("t.py::test[", None),  # its candidates do not agree
        ("t.py::test[c", None),
        ("t.py::test", None),  # nothing was cut off, so it is no prefix
        ("t.py::test[a b]", "passed"),
    ],
)
def test_an_id_that_was_cut_off_stands_for_those_that_agree(name, outcome) -> None:
    assert outcome_of(name, CUT) == outcome


@given(st.dictionaries(st.text("ab[]:", max_size=6), st.sampled_from(OUTCOMES), max_size=6))
def test_every_test_is_in_one_part(outcomes) -> None:
    names = [*outcomes, "nowhere", "cut["]
    found = parted(names, outcomes, MENDED)
    assert sorted((*found.passed, *found.failed)) == sorted(names)


def test_failures_of_the_infrastructure_stay_in_the_count() -> None:
    """SWE-bench #586: else a run that loses its hard instances would look better."""
    full = Grade(instance="a", verdict="full")
    assert resolved_share([full, Grade(instance="b", infrastructure="no image")]) == 0.5
    assert resolved_share([]) == 0
    assert not Grade(instance="c", verdict="full", problem="tampered").resolved
