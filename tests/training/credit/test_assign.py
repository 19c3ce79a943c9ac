"""Credit by groups: who is compared with whom, who is left out, and what is said about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from rolecraft.errors import ModelUnavailable, UnknownName, UsageError
from rolecraft.rollouts.collect import Failed
from rolecraft.training import Algorithm, TrainingSequence
from rolecraft.training.credit.assignment import assign
from rolecraft.training.credit.groups import GroupKey
from rolecraft.training.credit.settings import Credit

torch.set_num_threads(1)

PLAIN = Algorithm(advantage="dr_grpo")


def of_role(sequences: Iterable[TrainingSequence], role: str) -> list[float]:
    """The one advantage that all actions of each of a role's sequences have."""
    found: list[float] = []
    for sequence in sequences:
        if sequence.role == role:
            pairs = list(zip(sequence.advantages, sequence.action_mask, strict=True))
            (advantage,) = {advantage for advantage, action in pairs if action}
            assert not any(advantage for advantage, action in pairs if not action)
            found.append(advantage)
    return found


async def test_a_role_is_compared_with_itself_in_other_attempts_at_the_same_task(
    relay_played: Any,
) -> None:
    """Never with another role, whose rewards may have another scale, nor with another task."""
    found = await relay_played(
        [
            {"planner": 1.0, "executor": 100.0},
            {"planner": 0.0, "executor": 300.0},
            {"planner": 5.0, "executor": 100.0},
            {"planner": 5.0, "executor": 400.0},
        ],
        ["x", "x", "y", "y"],
    )
    scored = assign(found, PLAIN)
    assert scored.unscored == []
    assert of_role(scored.sequences, "planner") == [0.5, -0.5, 0.0, 0.0]
    assert of_role(scored.sequences, "executor") == [-100, 100, -150, 150]
    assert (scored.groups, scored.silent_groups, scored.silent_tasks) == (4, 1, [])
    assert scored.shares == {"planner": 1 / 501, "executor": 500 / 501}


async def test_an_attempt_without_a_reward_does_not_shift_its_group(relay_played: Any) -> None:
    found = await relay_played(
        [{"planner": 1.0}, {"planner": math.nan}, {"planner": 0.0}], ["x", "x", "x"]
    )
    scored = assign(found, PLAIN)
    assert of_role(scored.sequences, "planner") == [0.5, -0.5]
    assert len(scored.unscored) == 1
    assert "#1:planner" in scored.unscored[0]
    assert scored.refill == []


@pytest.mark.parametrize("advantage", ["grpo", "dr_grpo", "rloo"])
@pytest.mark.parametrize(
    "group", ["role", "role_turn", "role_turns", "task", "role_batch", "batch"]
)
def test_groups_of_one_and_of_equal_rewards_give_exactly_nothing(
    by_hand: Any, advantage: Any, group: str
) -> None:
    """SkyRL and verl keep the raw reward of a group of one as its advantage."""
    algorithm = Algorithm(advantage=advantage)
    for found in ([by_hand("a", 0.7)], [by_hand("ab", 0.1 + 0.2) for _ in range(3)]):
        scored = assign(found, algorithm, credit=Credit(group=group))
        assert not any(any(sequence.advantages) for sequence in scored.sequences)
        assert scored.silent_groups == scored.groups > 0
        assert [task.id for task in scored.silent_tasks] == ["task"]
        assert set(scored.shares.values()) == {0.0}


def test_the_team_reward_is_everybodys_whatever_roles_were_given(by_hand: Any) -> None:
    found = [by_hand("ab", 1.0, roles={"a": 5.0}), by_hand("ab", 0.0, roles={"a": 7.0})]
    own = assign(found, PLAIN).sequences
    team = assign(found, PLAIN, credit=Credit(reward="team")).sequences
    assert of_role(own, "a") == [-1.0, 1.0]
    assert of_role(own, "b") == of_role(team, "b") == of_role(team, "a") == [0.5, -0.5]


def test_a_group_key_of_ones_own_says_who_is_compared_with_whom(by_hand: Any) -> None:
    """Here tasks of one kind, whatever their ids."""
    kind = GroupKey("kind", lambda unit: (unit.task.id[0], unit.role))
    found = [by_hand("a", float(n), task=task) for n, task in enumerate(["x1", "y1", "x2", "y2"])]
    scored = assign(found, PLAIN, credit=Credit(group=kind))
    assert of_role(scored.sequences, "a") == [-1.0, -1.0, 1.0, 1.0]
    assert scored.groups == 2


def test_the_nth_turn_of_a_role_is_compared_with_its_nth_turns_elsewhere(
    by_hand: Any, credited: Callable[[TrainingSequence], list[float]]
) -> None:
    """AT-GRPO; an attempt with more turns is compared at those that others have too."""
    found = [by_hand("aab", 1.0), by_hand("aa", 0.0), by_hand("aaa", 0.0)]
    scored = assign(found, PLAIN, credit=Credit(group="role_turn"))
    by_turn = [credited(sequence) for sequence in scored.sequences if sequence.role == "a"]
    assert by_turn == [
        pytest.approx([2 / 3, 2 / 3]),
        pytest.approx([-1 / 3, -1 / 3]),
        pytest.approx([-1 / 3, -1 / 3, 0.0]),
    ]
    assert by_turn[2][2] == 0.0  # nobody else had a third turn
    assert scored.groups == 4


def test_what_a_machine_failed_is_dropped_from_its_group_and_its_task_named(by_hand: Any) -> None:
    """SkyRL puts a copy of a sibling in its place, whose reward then counts twice."""
    cancelled = by_hand("a", 0.0, stop="cancelled")
    lost = Failed(by_hand("a", 0.0, task="other").task, ModelUnavailable("gone"))
    found = [by_hand("a", 1.0), cancelled, by_hand("a", 0.0), lost]
    scored = assign(found, PLAIN)
    assert of_role(scored.sequences, "a") == [0.5, -0.5]
    assert [task.id for task in scored.refill] == ["task", "other"]


@pytest.mark.parametrize("stop", ["rounds", "limit", "observer", "idle"])
def test_what_the_team_failed_stays_in_its_group_with_what_it_earned(
    by_hand: Any, stop: str
) -> None:
    """Out of rounds, out of tokens, stopped because it was stuck."""
    found = [by_hand("a", 1.0), by_hand("a", 0.25, stop=stop), by_hand("a", 0.25)]
    scored = assign(found, PLAIN)
    assert of_role(scored.sequences, "a") == [0.5, -0.25, -0.25]
    assert scored.refill == []


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"reward": "mine"}, UsageError, "'role', 'team'"),
        ({"group": "turn_role"}, UnknownName, "role_turn"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_at_once(
    wrong: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Credit(**wrong)
