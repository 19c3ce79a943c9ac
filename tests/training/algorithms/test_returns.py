"""Returns and GAE: reference values, their definitions, and that tool tokens are not there."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.returns import charged, gae, soft_overlong, token_returns
from rolecraft.training.algorithms.terms import Kl, Overlong

numbers = st.floats(-10, 10)
shares = st.floats(0, 1)
attempts = st.lists(st.tuples(numbers, numbers), max_size=8)
"""Reward and value of each action."""


def test_gae_reference_value_with_two_tool_tokens() -> None:
    """Whatever the critic says of the tool's tokens."""
    mask = [True, True, False, False, True, True]
    values = [0.1, 0.2, 99.0, -7.0, 0.4, 0.5]
    advantages, returns = gae([0, 0, 0, 0, 0, 1], values, mask, gamma=1.0, lam=0.95)
    assert advantages == pytest.approx([0.8089375, 0.74625, 0, 0, 0.575, 0.5], abs=1e-9)
    assert returns == pytest.approx([0.9089375, 0.94625, 0, 0, 0.975, 1.0], abs=1e-9)


def test_returns_of_two_turns_around_a_tool_call() -> None:
    mask = [False, True, True, False, False, True]
    assert token_returns([0, 0, 0, 0, 0, 1], mask) == [0, 1, 1, 0, 0, 1]
    assert token_returns([0, 0, 0, 0, 0, 1], mask, gamma=0.5) == [0, 0.25, 0.5, 0, 0, 1]
    assert token_returns([0, 0, 3, 0, 0, 1], mask, gamma=0.5) == [0, 1.75, 3.5, 0, 0, 1]


@given(attempts, shares)
def test_returns_are_the_discounted_sums_of_what_follows(
    attempt: list[tuple[float, float]], gamma: float
) -> None:
    rewards = [reward for reward, _ in attempt]
    expected = [
        sum(gamma**k * reward for k, reward in enumerate(rewards[t:])) for t in range(len(rewards))
    ]
    ours = token_returns(rewards, [True] * len(rewards), gamma=gamma)
    assert ours == pytest.approx(expected, abs=1e-9)


@given(attempts, shares, shares, numbers)
def test_gae_is_the_discounted_sum_of_surprises(
    attempt: list[tuple[float, float]], gamma: float, lam: float, bootstrap: float
) -> None:
    """Equation 16 of arXiv 1506.02438, written out."""
    rewards, values = [r for r, _ in attempt], [v for _, v in attempt]
    after = [*values[1:], bootstrap]
    deltas = [r + gamma * v2 - v for r, v, v2 in zip(rewards, values, after, strict=bool(attempt))]
    expected = [
        sum((gamma * lam) ** k * delta for k, delta in enumerate(deltas[t:]))
        for t in range(len(deltas))
    ]
    advantages, returns = gae(
        rewards, values, [True] * len(rewards), gamma=gamma, lam=lam, bootstrap=bootstrap
    )
    assert advantages == pytest.approx(expected, abs=1e-6)
    assert returns == pytest.approx([a + v for a, v in zip(expected, values, strict=True)])


@given(attempts, shares)
def test_with_lambda_1_the_critic_is_a_baseline_and_no_more(
    attempt: list[tuple[float, float]], gamma: float
) -> None:
    rewards, values = [r for r, _ in attempt], [v for _, v in attempt]
    mask = [True] * len(rewards)
    followed = token_returns(rewards, mask, gamma=gamma)
    advantages, returns = gae(rewards, values, mask, gamma=gamma, lam=1.0)
    assert returns == pytest.approx(followed, abs=1e-6)
    assert advantages == pytest.approx(
        [f - v for f, v in zip(followed, values, strict=True)], abs=1e-6
    )


@given(attempts, shares, shares, st.lists(st.integers(0, 8), max_size=9))
def test_tokens_that_are_no_actions_may_be_inserted_anywhere(
    attempt: list[tuple[float, float]], gamma: float, lam: float, places: list[int]
) -> None:
    """Tool results, other roles' words, padding on either side: nothing at actions changes."""
    rewards, values = [r for r, _ in attempt], [v for _, v in attempt]
    mask = [True] * len(rewards)
    long_rewards, long_values, long_mask = list(rewards), list(values), list(mask)
    for place in places:
        long_rewards.insert(place, 0.0)
        long_values.insert(place, math.nan)
        long_mask.insert(place, False)

    def of_actions(row: list[float]) -> list[float]:
        assert not any(v for v, action in zip(row, long_mask, strict=True) if not action)
        return [v for v, action in zip(row, long_mask, strict=True) if action]

    assert of_actions(token_returns(long_rewards, long_mask, gamma=gamma)) == token_returns(
        rewards, mask, gamma=gamma
    )
    whole = gae(rewards, values, mask, gamma=gamma, lam=lam)
    other = gae(long_rewards, long_values, long_mask, gamma=gamma, lam=lam)
    assert of_actions(other.advantages) == whole.advantages
    assert of_actions(other.returns) == whole.returns


def test_a_reward_among_given_tokens_is_the_last_actions_before() -> None:
    """One on the tool's result or on padding is not lost; one before any action is nobody's."""
    mask = [False, True, False, True, False]
    assert token_returns([9, 0, 1, 0, 2], mask, gamma=0.5) == [0, 2, 0, 2, 0]
    assert gae([9, 0, 1, 0, 2], [0.0] * 5, mask, gamma=0.5, lam=1.0).advantages == [0, 2, 0, 2, 0]


def test_an_attempt_that_was_cut_off_goes_on_in_the_critics_opinion() -> None:
    cut_off = gae([0.0, 0.0], [0.3, 0.4], [True, True], lam=1.0, bootstrap=0.8)
    assert cut_off.returns == pytest.approx([0.8, 0.8])


def test_the_k1_penalty_is_charged_at_actions_only() -> None:
    mask = [True, False, True]
    ours = charged([0, 0, 1], [-0.5, 7, -1.0], [-0.7, math.nan, -0.4], mask, kl=Kl(0.1, "k1"))
    assert ours == pytest.approx([-0.02, 0, 1.06])


@pytest.mark.parametrize(
    ("actions", "penalty"), [(0, 0), (16384, 0), (17408, -0.25), (20480, -1), (10**6, -1)]
)
def test_dapos_punishment_of_long_answers(actions: int, penalty: float) -> None:
    assert soft_overlong(actions, Overlong(20480, 4096)) == penalty


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="2, 3"):
        token_returns([0.0, 1.0], [True] * 3)
    with pytest.raises(UsageError, match="2, 2, 1"):
        gae([0.0, 1.0], [0.0], [True] * 2)
    with pytest.raises(UsageError, match="belongs to the loss"):
        charged([0.0], [0.0], [0.0], [True], kl=Kl(0.1, "k3"))
