"""The `relay` scenario: the reward is 1 for the right answer and 0 for any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolecraft.environments.relay import RelayEnvironment, RelayTasks, relay_team
from rolecraft.rewards import Signals, reward
from rolecraft.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from rolecraft.models.base import Model


@reward
def correct(signals: Signals) -> float:
    """1 if the team's answer is right, else 0."""
    return signals["relay.correct"]


VOCABULARY = ("planner", "executor", "asked", "value", "plus", *"abcd", *"01234")
"""Every word that the roles of `relay` read or write."""


def untrained(seed: int) -> Model:
    """A transformer of about 100,000 parameters that answers at random."""
    from rolecraft.models.tiny import tiny_model

    return tiny_model(VOCABULARY, seed=seed)


relay = Scenario(
    name="relay",
    team=relay_team,
    environment=RelayEnvironment,
    tasks=RelayTasks(),
    reward=correct,
    untrained=untrained,
)
