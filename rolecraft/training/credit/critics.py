"""What a critic is to credit assignment: something that says what a state is worth.

Two kinds. One that reads a role's own tokens fills `sequence.values` at its actions
(`Trainer.value` is one). One that sees the whole team, as the centralised critic of MAPPO (arXiv
2103.01955) does, is asked once an episode about the team's turns in order; what it says of a turn
stands at all of the turn's actions. Either learns from `sequence.returns`, which credit assignment
fills.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from rolecraft.errors import UsageError
from rolecraft.training.credit.attempts import Attempt, Place
from rolecraft.training.policy.sequences import TrainingSequence
from rolecraft.trajectories.trajectory import Trajectory

RoleCritic: TypeAlias = Callable[[Sequence[TrainingSequence]], object]
"""Fills the `values` of sequences."""


class TeamTurn(NamedTuple):
    """One turn of the team, as a centralised critic sees it."""

    role: str
    event: int
    """Sequence number of its `model_call` event: what was before it is the state."""
    given: tuple[int, ...]
    """Tokens that the role was given since its turn before."""
    sampled: tuple[int, ...]
    """Tokens that it then sampled; no part of the state that is to be valued."""


@runtime_checkable
class TeamCritic(Protocol):
    """Values states of the whole team."""

    def team_values(self, trajectory: Trajectory, turns: Sequence[TeamTurn]) -> Sequence[float]:
        """Of each turn of an episode: what the team can expect from where it was taken."""
        ...


def fill_values(attempts: Sequence[Attempt], critic: RoleCritic | TeamCritic | None) -> None:
    """Have the critic say what each action's state is worth.

    Raises `UsageError` where there is none, or where it leaves values out or says no number.
    """
    sequences = [sequence for attempt in attempts for sequence in attempt.sequences]
    if isinstance(critic, TeamCritic):
        for team in by_episode(attempts):
            _fill_team(team, critic)
    elif critic is not None:
        critic(sequences)
    for sequence in sequences:
        if len(sequence.values) != len(sequence.ids):
            raise UsageError(
                f"`advantage='gae'` needs a critic's value of each token, and sequence "
                f"`{sequence.name}` has {len(sequence.values)} for {len(sequence.ids)}: give "
                f"`assign(..., critic=trainer.value)`."
            )


def by_episode(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """The attempts, those of each episode together."""
    teams: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        teams.setdefault(attempt.number, []).append(attempt)
    return list(teams.values())


def in_order(attempts: Sequence[Attempt]) -> list[tuple[Attempt, int, Place]]:
    """All turns of these attempts, in the order in which they were taken."""
    turns = [
        (attempt, number, place)
        for attempt in attempts
        for number, place in enumerate(attempt.places)
    ]
    return sorted(turns, key=lambda turn: turn[2].turn.event)


def given_before(place: Place) -> tuple[int, ...]:
    """The tokens that a role was given since its turn before in the same sequence."""
    turns = place.sequence.turns
    number = turns.index(place.turn)
    start = turns[number - 1].stop if number else 0
    return tuple(place.sequence.ids[start : place.turn.start])


def _fill_team(team: Sequence[Attempt], critic: TeamCritic) -> None:
    order = in_order(team)
    turns = [
        TeamTurn(
            attempt.role,
            place.turn.event,
            given_before(place),
            tuple(place.sequence.ids[place.turn.start : place.turn.stop]),
        )
        for attempt, _, place in order
    ]
    values = critic.team_values(team[0].episode.trajectory, turns)
    if len(values) != len(turns) or not all(map(math.isfinite, values)):
        raise UsageError(
            f"The critic was asked about {len(turns)} turns of `{team[0].name}` and said "
            f"{list(values)!r}: it is to give one finite number a turn."
        )
    for attempt in team:
        for sequence in attempt.sequences:
            sequence.values = [0.0] * len(sequence.ids)
    for (_, _, place), value in zip(order, values, strict=True):
        for at in place.actions:
            place.sequence.values[at] = float(value)
