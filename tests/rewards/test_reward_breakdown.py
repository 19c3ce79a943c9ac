"""A breakdown adds up, says what it is made of, and outlives the Rolecraft that stored it."""

from __future__ import annotations

import asyncio
import json
import pickle
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.rewards import (
    Clip,
    Counterfactual,
    Gate,
    Potential,
    Reward,
    RewardBreakdown,
    Signals,
    TeamMix,
    reward,
    signal,
)
from rolecraft.rewards.reward import _Function
from rolecraft.trajectories import Event, FailureFinding, Signal, Trajectory, signal_event

ROLES = ("planner", "coder")
NAMES = ("a", "b", "c")

numbers = st.floats(-1e6, 1e6) | st.sampled_from([0.1, 0.2, 0.3, 1e-17, 1e18, -1e18])


def leaves() -> st.SearchStrategy[Reward]:
    return st.sampled_from(NAMES).map(signal)


def grown(inner: st.SearchStrategy[Reward]) -> st.SearchStrategy[Reward]:
    bounds = st.tuples(numbers, numbers).map(sorted)
    return st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] + two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] - two[1]),
        st.tuples(inner, numbers).map(lambda two: two[0] * two[1]),
        st.tuples(inner, bounds).map(lambda two: Clip(two[0], *two[1])),
        st.tuples(inner, inner, numbers).map(
            lambda three: Gate(three[0], three[1], at_least=three[2], otherwise=-0.5)
        ),
        st.tuples(inner, inner, st.floats(0, 1)).map(lambda three: TeamMix(*three)),
        st.tuples(st.sampled_from(ROLES), inner, numbers).map(lambda three: Counterfactual(*three)),
        st.tuples(inner, numbers).map(lambda two: two[0] + Potential("a", start=two[1])),
    )


rewards = st.recursive(leaves(), grown, max_leaves=8)
logs = st.fixed_dictionaries({name: st.tuples(numbers, numbers) for name in NAMES}).map(
    lambda of: [
        Signal(name, value, role=role, step=index)
        for index, role in enumerate(ROLES)
        for name, values in of.items()
        for value in (values[index],)
    ]
)


def run_of(log: list[Signal]) -> Trajectory:
    trajectory = Trajectory("run", {"roles": [{"name": name} for name in ROLES]})
    trajectory.write([signal_event(each) for each in log])
    return trajectory


@given(rewards, logs)
def test_shares_add_up_exactly_for_the_team_and_for_each_role(
    tree: Reward, log: list[Signal]
) -> None:
    breakdown = tree(run_of(log))
    assert breakdown.value == sum(breakdown.shares.values())
    assert set(breakdown.roles) == set(ROLES)
    for name, value in breakdown.roles.items():
        assert value == sum(breakdown.role_shares[name].values())


@given(rewards, logs)
def test_the_same_log_gives_the_same_breakdown_and_json_keeps_it(
    tree: Reward, log: list[Signal]
) -> None:
    breakdown = tree(run_of(log))
    assert tree(run_of(log)) == breakdown
    assert RewardBreakdown.from_dict(json.loads(json.dumps(breakdown.to_dict()))) == breakdown
    assert pickle.loads(pickle.dumps(breakdown)) == breakdown


def test_a_breakdown_that_an_earlier_rolecraft_pickled_is_read() -> None:
    old = RewardBreakdown.__new__(RewardBreakdown)
    old.__setstate__([0.5, {"solved": 0.5}, {"qa": 0.5}])
    assert old == RewardBreakdown(0.5, {"solved": 0.5}, {"qa": 0.5})
    assert RewardBreakdown.from_dict({"value": 0.5}) == RewardBreakdown(0.5)
    with pytest.raises(UsageError, match="no stored reward"):
        RewardBreakdown.from_dict({"shares": {}})


def test_each_share_names_the_signals_that_it_was_made_from() -> None:
    @reward
    def solved(signals: Signals) -> float:
        return float(signals["tests.failed"] == 0 and signals["tests.passed"] > 0)

    log = [Signal("tests.passed", 2.0), Signal("tests.failed", 0.0), Signal("builds", 1.0)]
    breakdown = Gate("builds", solved)(log)
    assert breakdown.shares == {"solved": 1.0}
    assert breakdown.evidence == {"solved": ("tests.failed", "tests.passed", "builds")}
    assert breakdown.grounded


@pytest.mark.parametrize("source", ["judge:openai/o3", "judge openai/o3"])
def test_a_share_made_from_what_a_judge_thinks_is_not_grounded(source: str) -> None:
    log = [Signal("tests.ok", 1.0), Signal("taste", 0.5, source=source)]
    breakdown = (signal("tests.ok") + signal("taste"))(log)
    assert breakdown.ungrounded == ("taste",)
    assert not breakdown.grounded
    assert signal("tests.ok")(log).grounded
    assert Gate("taste", signal("tests.ok"), at_least=0.5)(log).ungrounded == ("tests.ok",)


def test_a_share_made_from_a_judges_findings_is_not_grounded() -> None:
    @reward
    def few(signals: Signals) -> float:
        return 1 / (1 + len(signals.findings))

    said = {
        source: FailureFinding("repetition", "absent", source=source)
        for source in ("judge:openai/o3", "person:ann")
    }
    judged = (few + signal("a"))([Signal("a", 1.0)], findings=said.values())
    assert judged.ungrounded == ("few",)
    assert judged.evidence == {"few": ("judge:openai/o3",), "a": ("a",)}
    assert few([], findings=[said["person:ann"]]).grounded


def test_a_function_without_a_name_of_its_own_may_be_a_reward() -> None:
    def scaled(factor: float, signals: Signals) -> float:
        return factor * signals["a"]

    assert reward(partial(scaled, 2.0))([Signal("a", 3.0)]).shares == {"scaled": 6.0}
    for wrong in (3, signal("a")):
        with pytest.raises(UsageError, match="Expected a function of `Signals`"):
            reward(wrong)  # type: ignore[arg-type]


def test_a_function_is_asked_once_for_a_run_however_often_it_stands_in_the_reward() -> None:
    asked: list[str] = []

    @reward
    def slow(signals: Signals) -> float:
        asked.append(signals.role)
        return signals["a"]

    mixed = TeamMix(slow, slow + Clip(2 * slow, high=1.0), alpha=0.5)
    log = [Signal("a", 1.0, role=role, step=0) for role in ROLES]
    mixed(run_of(log))
    assert asked == ["", *ROLES]


async def test_an_async_reward_function_is_awaited_also_where_a_loop_is_running() -> None:
    @reward
    async def patient(signals: Signals) -> float:
        await asyncio.sleep(0)
        return signals["a"] / 2

    assert patient([Signal("a", 3.0)]).value == 1.5


@pytest.mark.parametrize("given", [None, "many", [1.0]])
def test_a_reward_that_is_no_number_is_an_error_that_names_it(given: Any) -> None:
    with pytest.raises(UsageError, match=r"`odd` gave .*no number"):
        _Function("odd", lambda _: given)([])


def test_what_is_no_reward_cannot_be_added() -> None:
    with pytest.raises(UsageError, match="Expected a reward or a number, got 'solved'"):
        signal("a") + "solved"  # type: ignore[operator]


def test_events_that_are_no_signals_do_not_matter_to_a_function_of_signals() -> None:
    run = run_of([Signal("a", 1.0)])
    run.write([Event("stop", data={"reason": "idle"})])
    assert signal("a")(run).value == 1.0
