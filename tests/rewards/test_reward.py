"""Rewards are pure functions of signals, and say which measurement paid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UnknownName, UsageError
from rolecraft.rewards import Reward, Signals, reward, turns
from rolecraft.trajectories import Event, Signal, Trajectory, signal_event


@reward
def solved(signals: Signals) -> float:
    return float(signals["tests.failed"] == 0 and signals["tests.passed"] > 0)


def logged(**values: float) -> Signals:
    return Signals(Signal(name.replace("_", "."), value) for name, value in values.items())


def test_a_decorated_function_scores_what_was_measured() -> None:
    assert solved(logged(tests_failed=0, tests_passed=3)).value == 1.0
    assert solved(logged(tests_failed=1, tests_passed=3)).value == 0.0


def test_rewards_combine_and_every_share_is_named() -> None:
    shaped = solved - 0.02 * turns
    breakdown = shaped(logged(tests_failed=0, tests_passed=1, turns=10))
    assert breakdown.value == pytest.approx(0.8)
    assert breakdown.shares == {"solved": 1.0, "turns": pytest.approx(-0.2)}


def test_a_number_minus_a_reward_and_negation() -> None:
    signals = logged(turns=4)
    assert (1 - turns)(signals).value == -3
    assert (-turns)(signals).value == -4
    assert (2 + turns)(signals).shares == {"turns": 4.0, "constant": 2.0}


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), min_size=1, max_size=6),
    st.fixed_dictionaries({name: st.integers(-9, 9) for name in "abc"}),
)
def test_shares_always_add_up_to_the_value(
    terms: list[tuple[str, int]], values: dict[str, int]
) -> None:
    def leaf(name: str) -> Reward:
        def part(signals: Signals) -> float:
            return signals[name]

        part.__name__ = name
        return reward(part)

    total: Reward = factor_of(leaf(terms[0][0]), terms[0][1])
    for name, factor in terms[1:]:
        total = total + factor_of(leaf(name), factor)
    breakdown = total(logged(**values))
    assert breakdown.value == sum(breakdown.shares.values())
    assert breakdown.value == sum(factor * values[name] for name, factor in terms)


def factor_of(part: Reward, factor: int) -> Reward:
    return part * factor


def test_a_signal_that_was_not_logged_is_an_error_that_names_the_logged_ones() -> None:
    with pytest.raises(UnknownName, match=r"'tests.failed' is not known.*`turns`"):
        solved(logged(turns=1))
    assert logged(turns=1).get("tests.failed", 7) == 7


def test_the_latest_value_counts_and_the_log_keeps_all() -> None:
    signals = Signals([Signal("cost", 1.0), Signal("cost", 2.0, role="qa")])
    assert signals["cost"] == 2.0
    assert signals.all("cost") == [1.0, 2.0]
    assert dict(signals.of("qa")) == {"cost": 2.0}


def test_a_stored_trajectory_can_be_scored_again_with_another_reward() -> None:
    trajectory = Trajectory("run", {"roles": [{"name": "writer"}, {"name": "qa"}]})
    trajectory.write([Event("stop", data={"reason": "idle"}), signal_event(Signal("turns", 3.0))])
    breakdown = (10 - turns)(trajectory)
    assert breakdown.value == 7.0
    assert breakdown.roles == {"writer": 7.0, "qa": 7.0}


def test_a_reward_is_divided_by_numbers_only() -> None:
    assert (turns / 4)(logged(turns=6)).shares == {"turns": 1.5}
    for wrong in (0, turns, "4"):
        with pytest.raises(UsageError, match="divided by a number but 0"):
            turns / wrong  # type: ignore[operator]


def test_two_rewards_cannot_be_multiplied() -> None:
    with pytest.raises(UsageError, match="multiplied by a number"):
        solved * turns  # type: ignore[operator]
