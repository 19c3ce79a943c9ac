"""Advantages of attempts and turns: each against the others of its group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from rolecraft.training.algorithms.advantages import group_advantages
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.algorithms.steps import step_advantages, step_groups, step_returns
from rolecraft.training.algorithms.terms import StepGroups
from rolecraft.training.credit.attempts import Attempt
from rolecraft.training.credit.critics import given_before
from rolecraft.training.credit.ema import CreditState, Ema, against_average
from rolecraft.training.credit.groups import Unit
from rolecraft.training.credit.settings import Credit


class Compared(NamedTuple):
    """What comparing came to."""

    groups: int
    silent: int
    """Groups all of whose units have exactly no advantage."""
    state: CreditState


def compare(
    attempts: Sequence[Attempt], algorithm: Algorithm, credit: Credit, state: CreditState
) -> Compared:
    """Credit each attempt, or each turn, with what it earned against its group."""
    per_turn = credit.key.per == "turn"
    units = [
        (attempt, number)
        for attempt in attempts
        for number in (range(len(attempt.places)) if per_turn else (None,))
    ]
    keys = [credit.key.key(Unit(each.task, each.role, number)) for each, number in units]
    worth = [
        reward
        for attempt in attempts
        for reward in (
            step_returns(attempt.rewards, gamma=credit.discount) if per_turn else [attempt.reward]
        )
    ]
    if isinstance(credit.baseline, Ema):
        advantages, state = against_average(worth, keys, ema=credit.baseline, state=state)
    elif credit.baseline == "none":
        advantages = worth
    else:
        advantages = group_advantages(worth, keys, kind=algorithm.advantage)
    telling: dict[Hashable, bool] = {}
    for (attempt, turn), key, advantage in zip(units, keys, advantages, strict=True):
        telling[key] = telling.get(key, False) or advantage != 0.0
        if turn is None:
            for sequence in attempt.sequences:
                sequence.credit(advantage)
        else:
            place = attempt.places[turn]
            place.sequence.credit(advantage, place.turn)
    if algorithm.steps is not None:
        _add_steps(attempts, algorithm, algorithm.steps)
    return Compared(len(telling), sum(not said for said in telling.values()), state)


def _add_steps(attempts: Sequence[Attempt], algorithm: Algorithm, steps: StepGroups) -> None:
    """GiGPO: add what each turn earned against the turns that began with the same observation.

    What a role was given since its turn before is what it observed.
    """
    seen = [[given_before(place) for place in attempt.places] for attempt in attempts]
    groups = step_groups([(attempt.task.id, attempt.role) for attempt in attempts], seen)
    returns = [step_returns(attempt.rewards, gamma=steps.gamma) for attempt in attempts]
    added = step_advantages(returns, groups, kind=algorithm.advantage)
    for attempt, its_steps in zip(attempts, added, strict=True):
        for place, advantage in zip(attempt.places, its_steps, strict=True):
            for at in place.actions:
                place.sequence.advantages[at] += steps.weight * advantage
