"""Credit at turns: it stands at exactly the actions of the turn that earned it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.rewards.breakdown import StepShare
from rolecraft.training import Algorithm, TrainingSequence
from rolecraft.training.algorithms.presets import algorithm
from rolecraft.training.credit import Credit, assign, credit
from rolecraft.trajectories.events import Signal

PLAIN = Algorithm(advantage="dr_grpo")
RETURNS = Algorithm(advantage="returns", group=1)

Credited = Callable[[TrainingSequence], list[float]]


def turns_of(scored: Any, role: str, credited: Credited) -> list[list[float]]:
    return [credited(sequence) for sequence in scored.sequences if sequence.role == role]


def step(event: int, value: float, role: str = "") -> Signal:
    return Signal("progress", value, role=role, step=event)


def test_the_advantage_of_a_turn_is_at_exactly_that_turns_actions(
    by_hand: Any, credited: Credited
) -> None:
    """SkyRL #1507: they were at other positions, and most steps trained with 0.

    `credited` checks of every sequence that nothing but the actions has an advantage. Turn 1 of
    `a` is event 4: what was earned there is known, so that only it differs between the attempts.
    """
    first = by_hand("aba", 1.0, signals=[step(5, 1.0)])
    second = by_hand("aba", 0.0)
    immediate = Credit(group="role_turn", steps={"progress": 1.0}, discount=0.0)
    scored = assign([first, second], PLAIN, credit=immediate)
    assert turns_of(scored, "a", credited) == [[0.0, 0.5], [0.0, -0.5]]
    a = scored.sequences[0]
    assert [at for at, value in enumerate(a.advantages) if value] == [6, 7]
    assert (a.turns[1].start, a.turns[1].stop) == (6, 8)
    assert turns_of(scored, "b", credited) == [[0.5], [-0.5]]  # its own reward, at its one turn


def test_a_step_moves_reward_to_its_turn_and_adds_none(by_hand: Any, credited: Credited) -> None:
    """`returns` shows it: what follows an action is all there is, until it has been earned."""
    episode = by_hand("aaa", 1.0, signals=[step(1, 0.25), step(3, -0.5)])
    placed = Credit(steps={"progress": 2.0, "progres": 1.0})
    scored = assign([episode], RETURNS, credit=placed)
    assert turns_of(scored, "a", credited) == [[1.0, 0.5, 1.5]]
    assert scored.placed == {"progress": 2, "progres": 0}
    plain = assign([by_hand("aaa", 1.0)], RETURNS)
    assert turns_of(plain, "a", credited) == [[1.0, 1.0, 1.0]]


def test_steps_that_the_reward_function_credits_are_placed_too(
    by_hand: Any, credited: Credited
) -> None:
    """Potential shaping: see `rolecraft.rewards.potential`."""
    episode = by_hand("aa", 1.0)
    shaped = type(episode.reward)(1.0, steps=(StepShare(1, "potential", 0.5, "a"),))
    episode = type(episode)(episode.task, episode.trajectory, shaped)
    assert turns_of(assign([episode], RETURNS), "a", credited) == [[1.0, 0.5]]


def test_a_step_belongs_to_the_signals_role_else_to_who_made_the_event(
    by_hand: Any, credited: Credited
) -> None:
    """Event 3 is what b said; the second signal is about a, whose turn before led to it."""
    placed = Credit(steps={"progress": 1.0})
    by_author = assign([by_hand("aba", 1.0, signals=[step(3, 1.0)])], RETURNS, credit=placed)
    assert turns_of(by_author, "a", credited) == [[1.0, 1.0]]
    named = assign([by_hand("aba", 1.0, signals=[step(3, 1.0, "a")])], RETURNS, credit=placed)
    assert turns_of(named, "a", credited) == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("discount", "expected"), [(1.0, [1.0, 0.75]), (0.5, [0.625, 0.75]), (0.0, [0.25, 0.75])]
)
def test_a_turn_is_worth_what_it_earned_and_a_discounted_part_of_what_follows(
    by_hand: Any, credited: Credited, discount: float, expected: list[float]
) -> None:
    first = by_hand("aa", 1.0, signals=[step(1, 0.25)])
    settings_ = Credit(
        group="role_turn", steps={"progress": 1.0}, discount=discount, baseline="none"
    )
    assert turns_of(assign([first], PLAIN, credit=settings_), "a", credited) == [expected]


@settings(max_examples=30, deadline=None)
@given(
    turns=st.text("ab", min_size=1, max_size=5),
    rewards=st.lists(st.floats(-5, 5), min_size=2, max_size=4),
    more=st.integers(0, 7),
    name=st.sampled_from(["role", "at_grpo", "dr_mas", "returns", "gigpo"]),
)
def test_tool_results_between_turns_have_no_credit_and_change_nobody_elses(
    by_hand: Any, credited: Credited, turns: str, rewards: list[float], more: int, name: str
) -> None:
    """verl #7278: the return of REINFORCE++ became 0 at each tool result, and so before it."""
    how = {"returns": RETURNS, "gigpo": algorithm("gigpo")}.get(name, PLAIN)
    kind = credit(name) if name in ("role", "at_grpo", "dr_mas") else Credit()
    few, many = [
        assign([by_hand(turns, reward, given=given) for reward in rewards], how, credit=kind)
        for given in (1, 1 + more)
    ]
    assert [credited(s) for s in few.sequences] == [credited(s) for s in many.sequences]


def test_turns_that_saw_the_same_are_compared_with_each_other_besides(
    by_hand: Any, credited: Credited
) -> None:
    """GiGPO (arXiv 2505.10978): turn n of these attempts is given the same tokens in each.

    The second attempt earned its reward in turn 0: compared there, the later turn is no better.
    """
    found = [by_hand("aa", 1.0), by_hand("aa", 1.0, signals=[step(1, 1.0)]), by_hand("aa", 0.0)]
    placed = Credit(steps={"progress": 1.0})
    scored = assign(found, algorithm("gigpo"), credit=placed)
    whole = [1 / 3, 1 / 3, -2 / 3]
    # Discounted returns: turn 0 is worth 0.95, 1 and 0; turn 1 is worth 1, 0 and 0.
    early = [0.95 - 0.65, 1 - 0.65, -0.65]
    late = [2 / 3, -1 / 3, -1 / 3]
    assert turns_of(scored, "a", credited) == [
        pytest.approx([w + e, w + t]) for w, e, t in zip(whole, early, late, strict=True)
    ]


def test_a_reward_at_a_step_that_is_no_number_leaves_the_attempt_out_by_name(by_hand: Any) -> None:
    found = [by_hand("ab", 1.0, signals=[step(1, float("nan"))]), by_hand("ab", 0.0)]
    scored = assign(found, RETURNS, credit=Credit(steps={"progress": 1.0}))
    assert scored.unscored == ["task#0:a"]
    assert [sequence.role for sequence in scored.sequences] == ["b", "a", "b"]
