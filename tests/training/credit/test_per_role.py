"""Each role has means and scales of its own; a running average is used before it moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.training import Algorithm
from rolecraft.training.credit import Credit, CreditState, Ema, GroupKey, Scored, assign, credit
from rolecraft.training.credit.ema import against_average

PLAIN = Algorithm(advantage="dr_grpo")
REWARDS = [(0.0, 1.0), (1.0, 3.0), (0.5, 2.0), (0.4, 0.0)]


def by_role(scored: Scored) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for sequence in scored.sequences:
        (advantage,) = {
            a for a, m in zip(sequence.advantages, sequence.action_mask, strict=True) if m
        }
        found.setdefault(sequence.role, []).append(advantage)
    return found


def played(by_hand: Any, scale: float, rewards: Any = REWARDS) -> list[Any]:
    """Attempts of a and b at two tasks; b's rewards are in another unit."""
    return [
        by_hand("ab", a, task=f"task-{n % 2}", roles={"a": a, "b": scale * b})
        for n, (a, b) in enumerate(rewards)
    ]


def size(values: list[float]) -> float:
    return sum(map(abs, values))


@pytest.mark.parametrize(
    ("algorithm", "how"),
    [
        (Algorithm(advantage="grpo"), credit("dr_mas")),
        (PLAIN, Credit(whiten="role")),
    ],
    ids=["group", "whiten"],
)
def test_with_a_mean_and_scale_of_its_own_a_role_is_as_if_alone(
    by_hand: Any, algorithm: Algorithm, how: Credit
) -> None:
    """Dr. MAS: what unit another role's rewards are in, and one's own, changes nothing."""
    one, other = [
        by_role(assign(played(by_hand, scale), algorithm, credit=how)) for scale in (1.0, 1000.0)
    ]
    assert other["a"] == one["a"]
    assert other["b"] == pytest.approx(one["b"], rel=1e-3)
    assert size(other["b"]) / size(other["a"]) == pytest.approx(1.0, abs=0.3)


def test_dr_mas_weighs_attempts_at_a_task_by_the_roles_turns(by_hand: Any, credited: Any) -> None:
    """Turns of 0, 1, 1, 1: mean 0.75, std 0.5. That another task is easier is not the role's doing,
    and another role's turns are another group."""
    found = [by_hand("ab", 0.0), by_hand("aaab", 1.0)]
    found += [by_hand("ab", 10.0, task="easy"), by_hand("ab", 12.0, task="easy")]
    scored = assign(found, Algorithm(advantage="grpo"), credit=credit("dr_mas"))
    a = [credited(s) for s in scored.sequences if s.role == "a"]
    b = [credited(s) for s in scored.sequences if s.role == "b"]
    assert a[:2] == [pytest.approx([-1.5], abs=1e-3), pytest.approx([0.5] * 3, abs=1e-3)]
    half = 0.5**0.5
    assert [x for (x,) in a[2:]] == pytest.approx([-half, half], abs=1e-3)
    assert [x for (x,) in b] == pytest.approx([-half, half, -half, half], abs=1e-3)
    assert scored.groups == 4


def test_with_one_mean_and_scale_for_all_the_larger_unit_drowns_the_other_role(
    by_hand: Any,
) -> None:
    """What Dr. MAS mends: the same rewards, and a's differences are next to nothing."""
    algorithm = Algorithm(advantage="grpo")
    how = Credit(group="batch")
    alike, apart = [
        by_role(assign(played(by_hand, scale), algorithm, credit=how)) for scale in (1.0, 1000.0)
    ]

    def spread(values: list[float]) -> float:
        return max(values) - min(values)

    assert spread(apart["a"]) < 0.01 * spread(alike["a"])
    assert spread(apart["a"]) < 0.01 * spread(apart["b"])


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=6))
def test_credit_does_not_depend_on_the_order_of_episodes(by_hand: Any, rewards: Any) -> None:
    found = played(by_hand, 3.0, rewards)
    for how in (credit("role"), credit("at_grpo"), credit("dr_mas"), credit("rae")):
        there = by_role(assign(found, PLAIN, credit=how))
        back = by_role(assign(found[::-1], PLAIN, credit=how))
        for role, values in there.items():
            assert back[role][::-1] == pytest.approx(values, abs=1e-9)


def test_a_running_average_is_used_before_it_moves(by_hand: Any) -> None:
    """RAE. With decay 0.5, three rewards of 1 leave an eighth of the start."""
    how = Credit(group="role_batch", baseline=Ema(decay=0.5))
    found = [by_hand("ab", 1.0, roles={"a": 1.0, "b": -1.0}) for _ in range(3)]
    first = assign(found, PLAIN, credit=how)
    assert by_role(first) == {"a": [1.0] * 3, "b": [-1.0] * 3}
    assert first.state.averages == {'"a"': 0.875, '"b"': -0.875}
    assert first.silent_groups == 0
    second = assign(found, PLAIN, credit=how, state=first.state)
    assert by_role(second) == {"a": [0.125] * 3, "b": [-0.125] * 3}
    assert first.state.averages == {'"a"': 0.875, '"b"': -0.875}  # what was given is not changed


def test_in_a_zero_sum_game_the_average_tells_what_the_group_cannot(by_hand: Any) -> None:
    """All attempts at a task end alike, so that a group says nothing."""
    found = [by_hand("ab", 0.0, roles={"a": 1.0, "b": -1.0}) for _ in range(4)]
    assert assign(found, PLAIN).silent_groups == 2
    state = CreditState({'"a"': 0.25, '"b"': -0.25})
    scored = assign(found, PLAIN, credit=credit("rae"), state=state)
    assert by_role(scored) == {"a": [0.75] * 4, "b": [-0.75] * 4}


def test_a_state_comes_back_from_json_to_the_bit(by_hand: Any) -> None:
    kind = GroupKey("role_kind", lambda unit: (unit.role, unit.task.id))
    how = Credit(group=kind, baseline=Ema(decay=0.9, start=0.1))
    found = played(by_hand, 0.3)
    state = assign(found, PLAIN, credit=how).state
    again = CreditState.from_dict(json.loads(json.dumps(state.to_dict())))
    assert again == state
    assert len(state.averages) == 4
    ours, theirs = [assign(found, PLAIN, credit=how, state=s) for s in (state, again)]
    assert by_role(ours) == by_role(theirs)
    assert ours.state == theirs.state


@pytest.mark.parametrize("wrong", [{}, {"averages": {"a": "1"}}, {"averages": [1.0]}, None, []])
def test_what_is_no_state_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="no state"):
        CreditState.from_dict(wrong)


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=20),
    st.floats(0, 0.99),
)
def test_an_average_moves_towards_the_rewards_and_never_beyond(
    rewards: list[float], decay: float
) -> None:
    _, state = against_average(
        rewards, ["x"] * len(rewards), ema=Ema(decay=decay), state=CreditState()
    )
    mean = sum(rewards) / len(rewards)
    assert min(0.0, mean) - 1e-12 <= state.averages['"x"'] <= max(0.0, mean) + 1e-12
