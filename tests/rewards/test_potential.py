"""Shaping by potentials telescopes, so it credits steps and changes nothing about what is best."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.rewards import Gate, Potential, Signals, TeamMix, signal
from rolecraft.rewards.potential import telescoping
from rolecraft.trajectories import Signal, Trajectory, signal_event

phis = st.floats(-100, 100)


def progress(*values: float) -> list[Signal]:
    return [Signal("done", value, step=index * 3) for index, value in enumerate(values)]


@given(st.lists(phis, min_size=1, max_size=10), phis, st.floats(0.5, 1))
def test_the_credits_of_an_episode_add_up_to_minus_the_potential_of_its_start(
    values: list[float], start: float, gamma: float
) -> None:
    breakdown = Potential("done", gamma=gamma, start=start)(progress(*values))
    assert breakdown.value == 0.0 - start
    assert sum(each.value for each in breakdown.steps) == pytest.approx(-start, abs=1e-9)
    assert [each.event for each in breakdown.steps] == [3 * step for step in range(len(values))]


def test_a_step_forward_is_credited_and_a_detour_is_taken_back() -> None:
    steps = Potential("done")(progress(0.5, 0.25, 0.75, 1.0)).steps
    assert [each.value for each in steps] == [0.5, -0.25, 0.5, -0.75]
    assert steps[0].share == "potential:done"


@given(
    st.integers(0, 10_000),
    st.lists(phis, min_size=12, max_size=12),
    st.sampled_from([1.0, 0.9, 0.5]),
)
def test_the_best_policy_of_a_random_decision_process_stays_the_best(
    seed: int, potentials: list[float], gamma: float
) -> None:
    """All 2^6 plans in a process of 3 steps with 4 states a step: shaped and plain returns differ
    by the same amount for every plan, so they have the same order."""
    chance = random.Random(seed)
    moves = {
        (state, action): (chance.randrange(4), chance.uniform(-1, 1))
        for state in range(4)
        for action in (0, 1)
    }
    differences = []
    for plan in itertools.product((0, 1), repeat=6):
        state, plain, visited = 0, 0.0, [potentials[0]]
        for t in range(6):
            state, gained = moves[state, plan[t]]
            plain += gamma**t * gained
            visited.append(potentials[state + 4 * (t % 2)])
        visited[-1] = 0.0
        shaped = plain + sum(telescoping(visited, gamma=gamma))
        differences.append(shaped - plain)
    assert differences == pytest.approx([-potentials[0]] * len(differences), abs=1e-9)


def test_the_value_of_a_run_does_not_depend_on_its_detours() -> None:
    shaped = signal("solved") + Potential("done", gamma=0.9)
    end = Signal("solved", 1.0)
    direct, detour = progress(1.0), progress(0.9, 0.1, 0.9, 0.1, 1.0)
    assert shaped([*direct, end]).value == shaped([*detour, end]).value == 1.0


def test_a_potential_may_be_a_function_of_the_signals_so_far() -> None:
    def share(signals: Signals) -> float:
        return signals["passed"] / (signals["passed"] + signals["failed"])

    log = [
        Signal("passed", 1.0, step=4, role="coder"),
        Signal("failed", 3.0, step=4, role="coder"),
        Signal("passed", 4.0, step=9, role="tester"),
        Signal("failed", 0.0, step=9, role="tester"),
    ]
    first, second = Potential(share)(log).steps
    assert (first.event, first.role, first.value) == (4, "coder", 0.25)
    assert (second.event, second.role, second.value) == (9, "tester", -0.25)


@given(st.lists(phis, min_size=1, max_size=5), st.floats(-3, 3).filter(bool), st.floats(0.5, 1))
def test_credits_count_as_much_as_the_potential_does(
    values: list[float], factor: float, gamma: float
) -> None:
    plain = Potential("done", gamma=gamma)
    solved = [Signal("solved", 1.0)]
    once, scaled = (
        plain(progress(*values)),
        (signal("solved") - factor * plain)([*progress(*values), *solved]),
    )
    assert [each.value for each in scaled.steps] == [-factor * each.value for each in once.steps]
    assert [each.value for each in (plain + plain)(progress(*values)).steps] == [
        each.value for each in once.steps for _ in range(2)
    ]
    assert (0 * plain)(progress(*values)).steps == ()


def test_in_a_mix_a_roles_steps_count_as_much_as_what_gave_them() -> None:
    run = Trajectory("run", {"roles": [{"name": "coder"}, {"name": "tester"}]})
    run.write([
        signal_event(Signal("done", 0.5, step=3, role="coder")),
        signal_event(Signal("done", 1.0, step=6, role="tester")),
        signal_event(Signal("own", 0.5, step=4, role="coder")),
        signal_event(Signal("own", 0.5, step=5, role="coder")),
    ])  # fmt: skip
    mixed = TeamMix(Potential("own"), Potential("done"), alpha={"coder": 0.25})(run)
    assert [(each.event, each.share, each.value) for each in mixed.steps] == [
        (3, "potential:done", 0.75 * 0.5),
        (4, "potential:own", 0.25 * 0.5),
        (5, "potential:own", 0.25 * -0.5),
        (6, "potential:done", -0.5),
    ]


def test_a_potential_that_is_only_a_condition_credits_nothing() -> None:
    gated = Gate(Potential("done", start=-1), signal("done"))
    assert gated(progress(0.5)).steps == ()
    assert gated(progress(0.5)).value == 0.5


def test_a_reward_may_be_the_potential_and_what_it_reads_is_its_evidence() -> None:
    share = signal("passed") - 0.5 * signal("failed")
    log = [Signal("passed", 1.0, step=1), Signal("failed", 1.0, step=2), Signal("x", 0.0, step=3)]
    breakdown = Potential(share)(log)
    assert [each.event for each in breakdown.steps] == [2, 3]
    assert [each.value for each in breakdown.steps] == [0.5, -0.5]
    assert breakdown.evidence == {breakdown.steps[0].share: ("passed", "failed")}
    judged = [*log, Signal("taste", 1.0, source="judge:m", step=4)]
    assert Potential(lambda signals: signals["taste"])(judged).ungrounded == ("potential:<lambda>",)


def test_without_steps_nothing_is_credited_and_a_wrong_discount_is_refused() -> None:
    assert Potential("done", start=0.25)([Signal("done", 1.0)]).steps == ()
    for gamma in (0.0, 1.1):
        with pytest.raises(UsageError, match=r"discount in \(0, 1\]"):
            Potential("done", gamma=gamma)
