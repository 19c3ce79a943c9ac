"""What runs cost, and how many of one kind cost as much as one of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from rolecraft.errors import UsageError
from rolecraft.experiments.runs import Played
from rolecraft.trajectories.events import Usage

Unit = Literal[
    "usd",  # US dollars; comparable across models
    "tokens",  # of prompts and answers; comparable where the models are the same
    "calls",  # model calls
]
UNITS: tuple[Unit, ...] = get_args(Unit)


def cost_of(usage: Usage, unit: Unit) -> float:
    """The cost in one unit; dollars of an unknown price count as 0."""
    match unit:
        case "usd":
            return usage.usd or 0.0
        case "calls":
            return float(usage.calls)
        case "tokens":
            return float(usage.prompt_tokens + usage.completion_tokens)


@dataclass(frozen=True, slots=True)
class EqualCost:
    """How many runs of the single agent cost as much as one of the team, as both were measured.

    `n` is that number rounded to the nearest whole one, and at least 1. `ratio` is what n runs of
    the single agent cost for each one of the team's cost; 1 is equal.
    """

    team: str
    single: str
    unit: Unit | None
    """None where nothing that was measured costs anything."""
    team_cost: float
    """Of one run, on average."""
    single_cost: float
    n: int
    ratio: float | None

    @property
    def is_far_from_equal(self) -> bool:
        """Whether whole runs come no nearer to the team's cost than a third more or a quarter less:
        so it is where one run of the agent costs more than one of the team."""
        return self.ratio is not None and not 0.75 <= self.ratio <= 4 / 3

    def in_words(self) -> str:
        """How n came about."""
        if self.unit is None or self.ratio is None:
            return (
                f"{self.team} and {self.single}: no cost of both was measured, so n is 1 and the "
                f"comparison is NOT at equal cost."
            )
        unit = "$" if self.unit == "usd" else self.unit
        return (
            f"n = {self.n}: on average a run of {self.team} cost {self.team_cost:.6g} {unit} and a "
            f"run of {self.single} {self.single_cost:.6g}; {self.n} of the latter cost "
            f"{self.ratio:.2f} times as much as one of the former."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def equal_cost(
    team: str,
    single: str,
    of_team: Sequence[Played],
    of_single: Sequence[Played],
    unit: Unit | None = None,
) -> EqualCost:
    """Compare the mean cost of runs that are over. Successes are not looked at.

    Without a `unit` it is dollars where the price of every run is known and above 0, else tokens,
    else calls. Raises `UsageError` for dollars where a price is unknown.
    """
    first = [each.usage for each in of_team if each.over]
    second = [each.usage for each in of_single if each.over]
    if unit == "usd" and any(usage.usd is None for usage in (*first, *second)):
        raise UsageError(
            "Costs cannot be equal in US dollars: the price of some runs is unknown. Take tokens "
            "or calls."
        )
    for each in UNITS if unit is None else (unit,):
        if each == "usd" and any(usage.usd is None for usage in (*first, *second)):
            continue
        ours, theirs = _mean(first, each), _mean(second, each)
        if ours > 0 and theirs > 0:
            n = max(1, int(ours / theirs + 0.5))
            return EqualCost(team, single, each, ours, theirs, n, n * theirs / ours)
    return EqualCost(team, single, None, 0.0, 0.0, 1, None)


def _mean(usages: Sequence[Usage], unit: Unit) -> float:
    return sum(cost_of(usage, unit) for usage in usages) / len(usages) if usages else 0.0
