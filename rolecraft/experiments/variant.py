"""A variant: one of the teams that an experiment compares, as a scenario with a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.environments.task import Task
from rolecraft.scenarios.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Variant:
    """A scenario under the name that tables and folders give it.

    `least_calls` is the fewest model calls with which a run can come to its end, for the estimate
    of what an experiment costs; 0 where nobody knows.
    """

    name: str
    scenario: Scenario
    least_calls: int = 0
    title: str = ""
    tasks: Sequence[Task] | None = None
    """What it plays; the experiment's tasks unless given."""
    repetitions: int | None = None
    """How often it plays each; as often as the experiment says unless given."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What its runs get beside what all runs get: `model`, `role_models`, `limits`, …"""
    identity: str = ""
    """What else makes it what it is (its model, how it samples): a folder holds one of them."""
