"""A variant: one of the teams that an experiment compares, as a scenario with a name."""

from __future__ import annotations

from dataclasses import dataclass

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
