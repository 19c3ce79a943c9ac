"""GiGPO: which turns are compared, and what a group averages over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.advantages import group_advantages
from rolecraft.training.algorithms.steps import gigpo, step_advantages, step_groups, step_returns
from rolecraft.training.algorithms.terms import StepGroups


def test_the_return_of_a_turn_is_discounted_by_turns() -> None:
    assert step_returns([0, 0, 1], gamma=0.5) == [0.25, 0.5, 1.0]
    assert step_returns([], gamma=0.5) == []


def test_only_turns_of_one_task_that_saw_the_same_are_compared() -> None:
    groups = step_groups(["t", "t", "u"], [["door", "key"], ["door"], ["door"]])
    assert groups[0][0] == groups[1][0]
    assert groups[0][0] != groups[2][0]
    assert groups[0][1] != groups[0][0]


def test_a_worked_example() -> None:
    """Two attempts meet at the door; one goes in at once, the other wanders and comes back."""
    advantages = gigpo(
        [1.0, 0.0],
        ["t", "t"],
        [[1.0], [0.0, 0.0, 0.0]],
        [["door"], ["door", "yard", "door"]],
        steps=StepGroups(weight=2.0, gamma=0.5),
    )
    # At the door three turns returned 1, 0 and 0: mean 1/3. In the yard nobody else was.
    assert advantages[0] == pytest.approx([0.5 + 2 * (2 / 3)])
    assert advantages[1] == pytest.approx([-0.5 - 2 / 3, -0.5, -0.5 - 2 / 3])


def test_an_attempt_counts_once_in_its_group_however_many_turns_it_took() -> None:
    """The authors' code averages over turns by default, so that long attempts weigh more."""
    turns = [[0.0] * 9 + [1.0], [0.0]]
    seen = [[f"a{i}" for i in range(10)], ["b"]]
    (long, short) = gigpo([1.0, 0.0], ["t", "t"], turns, seen, steps=StepGroups())
    assert long == [0.5] * 10
    assert short == [-0.5]


def test_a_place_that_an_attempt_returns_to_is_a_member_each_time() -> None:
    returns = [[0.0, 0.0], [1.0]]
    groups = [["here", "here"], ["here"]]
    assert step_advantages(returns, groups)[1] == pytest.approx([2 / 3])


def test_the_spread_of_a_step_group_divides_with_grpo() -> None:
    ours = step_advantages([[1.0], [0.0]], [["x"], ["x"]], kind="grpo")
    assert ours == [[a] for a in group_advantages([1.0, 0.0], ["x", "x"], kind="grpo")]


@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.sampled_from("tu"), st.integers(0, 5)),
        min_size=1,
        max_size=6,
    )
)
def test_where_nobody_saw_the_same_it_is_the_attempts_advantage(
    attempts: list[tuple[float, str, int]],
) -> None:
    rewards, tasks = [r for r, _, _ in attempts], [t for _, t, _ in attempts]
    turn_rewards = [[reward] * turns for reward, _, turns in attempts]
    seen = [[(i, turn) for turn in range(n)] for i, (_, _, n) in enumerate(attempts)]
    whole = group_advantages(rewards, tasks, kind="dr_grpo")
    ours = gigpo(rewards, tasks, turn_rewards, seen, steps=StepGroups())
    assert ours == [[a] * n for a, (_, _, n) in zip(whole, attempts, strict=True)]


def test_rows_must_match() -> None:
    with pytest.raises(UsageError, match="one return and one group"):
        step_advantages([[1.0, 2.0]], [["x"]])
