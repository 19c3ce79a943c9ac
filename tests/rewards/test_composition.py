"""Gates and bounds, and what they leave of the shares."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.rewards import Clip, Gate, MissingSignal, signal, turns
from rolecraft.trajectories import Signal

solved = signal("solved")


def log(**values: float) -> list[Signal]:
    return [Signal(name, value) for name, value in values.items()]


def test_what_stands_behind_a_gate_is_paid_only_if_it_is_open() -> None:
    gated = Gate("compiles", solved - 0.02 * turns)
    assert gated(log(compiles=1, solved=1, turns=10)).shares == {
        "solved": 1.0,
        "turns": pytest.approx(-0.2),
    }
    assert gated(log(compiles=0, solved=1, turns=10)).shares == {"gate:compiles": 0.0}


def test_a_gate_may_want_a_share_and_may_cost_something_closed() -> None:
    gated = Gate(2 * signal("tests.share"), solved, at_least=1.5, otherwise=-1)
    assert gated([Signal("tests.share", 0.75), Signal("solved", 1.0)]).value == 1.0
    assert gated([Signal("tests.share", 0.74)]).shares == {"gate:tests.share": -1}


def test_a_gate_whose_condition_was_not_measured_is_neither_open_nor_closed() -> None:
    with pytest.raises(MissingSignal, match="'compiles' is not known"):
        Gate("compiles", solved)(log(solved=1))


def test_a_gate_whose_condition_is_no_number_does_not_hide_it() -> None:
    gated = Gate("compiles", solved, otherwise=-1)
    assert math.isnan(gated(log(compiles=math.nan, solved=1)).value)


def test_clip_says_what_it_took_away_and_what_it_added() -> None:
    assert Clip(3 * solved, high=2)(log(solved=1)).shares == {"solved": 3.0, "clip:solved": -1.0}
    assert Clip(solved, low=0.5)(log(solved=0)).shares == {"solved": 0.0, "clip:solved": 0.5}
    assert Clip(solved, 0, 1)(log(solved=1)).shares == {"solved": 1.0}


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=4),
    st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)).map(sorted),
)
def test_the_bounds_of_a_clip_hold_exactly(values: list[float], bounds: list[float]) -> None:
    names = [f"s{index}" for index in range(len(values))]
    inner = sum((signal(name) for name in names[1:]), start=signal(names[0]))
    breakdown = Clip(Clip(inner, *bounds), *bounds)(log(**dict(zip(names, values, strict=True))))
    assert bounds[0] <= breakdown.value <= bounds[1]
    assert breakdown.value == sum(breakdown.shares.values())


def test_clip_does_not_hide_a_value_that_is_no_number() -> None:
    assert math.isnan(Clip(solved, 0, 1)(log(solved=math.nan)).value)
    assert Clip(solved, 0, 1)(log(solved=math.inf)).value == 1


def test_a_clip_that_nothing_can_satisfy_is_refused() -> None:
    with pytest.raises(UsageError, match="low is above high"):
        Clip(solved, 1, 0)
