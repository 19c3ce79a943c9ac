"""Advantages against published values, and what every one of them must keep."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UnknownName, UsageError
from rolecraft.training.algorithms.advantages import (
    ADVANTAGES,
    dr_grpo,
    group_advantages,
    grpo,
    maxrl,
    rloo,
)

REWARDS = [1, 0, 0, 1, 1, 0, 1, 1]
GROUPS = ["x"] * 4 + ["y"] * 4
KINDS = pytest.mark.parametrize("kind", sorted(ADVANTAGES))
rewards_of_a_group = st.lists(st.floats(0, 100), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("grpo", [0.865875, -0.865875, -0.865875, 0.865875, 0.4999, -1.4997, 0.4999, 0.4999]),
        ("dr_grpo", [0.5, -0.5, -0.5, 0.5, 0.25, -0.75, 0.25, 0.25]),
        ("rloo", [2 / 3, -2 / 3, -2 / 3, 2 / 3, 1 / 3, -1, 1 / 3, 1 / 3]),
    ],
)
def test_reference_values(kind: str, expected: list[float]) -> None:
    ours = group_advantages(REWARDS, GROUPS, kind=kind)  # type: ignore[arg-type]
    assert ours == pytest.approx(expected, abs=1e-6)


def test_leave_one_out_is_the_reward_minus_the_mean_of_the_others() -> None:
    rewards = [0.3, 1.0, -2.0, 0.7]
    expected = [
        reward - sum(rewards[:i] + rewards[i + 1 :]) / 3 for i, reward in enumerate(rewards)
    ]
    assert rloo(rewards) == pytest.approx(expected)


def test_maxrl_divides_by_the_mean_reward() -> None:
    assert maxrl([1, 0, 0, 0]) == pytest.approx([3, -1, -1, -1], abs=1e-4)
    assert maxrl([2e-6, 0]) == pytest.approx([0.5, -0.5])
    with pytest.raises(UsageError, match=r"from 0, got -1\.0"):
        maxrl([1.0, -1.0])


@KINDS
@given(reward=st.floats(0, 1e6), size=st.integers(1, 20))
def test_a_group_that_says_nothing_gives_exactly_zero(kind: str, reward: float, size: int) -> None:
    """One attempt, or all equal: not even rounding, which GRPO would divide by its eps."""
    assert ADVANTAGES[kind]([reward] * size) == [0.0] * size


@KINDS
@given(rewards=rewards_of_a_group)
def test_advantages_of_a_group_add_up_to_nothing_and_keep_the_order(
    kind: str, rewards: list[float]
) -> None:
    advantages = ADVANTAGES[kind](rewards)
    assert math.fsum(advantages) == pytest.approx(0.0, abs=1e-6)
    ranked = [advantage for _, advantage in sorted(zip(rewards, advantages, strict=True))]
    assert ranked == sorted(ranked)


@given(rewards=rewards_of_a_group, factor=st.floats(0.5, 50), shift=st.floats(-50, 50))
def test_how_they_change_with_the_scale_of_rewards(
    rewards: list[float], factor: float, shift: float
) -> None:
    """All ignore a constant; GRPO's also the unit of the reward, up to its eps."""
    moved = [factor * reward + shift for reward in rewards]
    assert dr_grpo(moved) == pytest.approx([factor * a for a in dr_grpo(rewards)], abs=1e-6)
    assert rloo(moved) == pytest.approx([factor * a for a in rloo(rewards)], abs=1e-6)
    if max(rewards) - min(rewards) > 0.1:
        assert grpo(moved, eps=0.0) == pytest.approx(grpo(rewards, eps=0.0), abs=1e-6)


@KINDS
@given(data=st.data())
def test_groups_do_not_mix_and_order_does_not_matter(kind: str, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.floats(0, 9), st.sampled_from("xyz")), max_size=12))
    rewards, groups = [reward for reward, _ in pairs], [group for _, group in pairs]
    whole = group_advantages(rewards, groups, kind=kind)  # type: ignore[arg-type]
    for group in set(groups):
        inside = [i for i, its_group in enumerate(groups) if its_group == group]
        alone = ADVANTAGES[kind]([rewards[i] for i in inside])
        assert [whole[i] for i in inside] == alone


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UnknownName, match="dr_grpo"):
        group_advantages([1.0], ["x"], kind="drgrpo")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="2 rewards and 1 groups"):
        group_advantages([1.0, 2.0], ["x"])
