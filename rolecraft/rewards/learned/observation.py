"""What a learned reward sees of a run: numbers by name, and the user's goal. Never the text.

A policy that is trained on the reward can write whatever it likes, and no word of it gets here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.rewards.signals import Signals
from rolecraft.trajectories.events import Signal
from rolecraft.trajectories.trajectory import Trajectory

FEATURES = (
    "run.errors",  # exceptions that were recorded
    "run.messages",  # of roles; the user's and the environment's are not counted
    "run.model_calls",
    "run.tokens",  # that models wrote
    "run.tool_calls",
    "run.tool_failures",  # results with `ok` false
    "run.unfinished",  # 1 where a limit, an error or somebody ended it, or no end is recorded
)
"""Features of the interaction, counted from the events; each is log(1 + count).

They are looked at only where a `Direction` names them. A team can change them without doing its
task: a reward that pays for few errors also pays for a record without them.
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """The numbers of one run by name (signals, and `FEATURES` where events are known).

    A name that is absent was not measured. `run` is what the run is called: the path of its
    journal, or the trajectory's id.
    """

    values: Mapping[str, float]
    goal: str = ""
    """What the user wants, in words; empty where nobody said."""
    run: str = ""

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        goal = {"goal": self.goal} if self.goal else {}
        return {"run": self.run, **goal, "values": dict(self.values)}

    @classmethod
    def from_record(cls, record: Any) -> Observation:
        """Raises `ValueError`, `TypeError` or `KeyError` for what is none."""
        values = {str(name): float(value) for name, value in record["values"].items()}
        if broken := [name for name, value in values.items() if not math.isfinite(value)]:
            raise ValueError(f"`{broken[0]}` is {values[broken[0]]}")
        return cls(values, str(record.get("goal", "")), str(record["run"]))


def observe(
    run: Trajectory | Signals | Iterable[Signal], *, goal: str | None = None, name: str = ""
) -> Observation:
    """What a learned reward sees of `run`: the latest value of each signal, and its features.

    Without `goal` it is the goal in words of the trajectory's header, if there is one. A value that
    is no finite number counts as not measured. A signal with the name of a feature comes first.
    """
    if isinstance(run, Trajectory):
        run = Signals(run.signals, trajectory=run)
    if not isinstance(run, Signals):
        run = Signals(run)
    trajectory = run.trajectory
    values: dict[str, float] = {}
    if trajectory is not None:
        stated = trajectory.about.get("goal")
        goal = goal if goal is not None else stated if isinstance(stated, str) else ""
        values = features(trajectory)
        name = name or trajectory.id
    values |= {signal: float(value) for signal, value in run.items() if math.isfinite(value)}
    return Observation(dict(sorted(values.items())), goal or "", name)


def features(trajectory: Trajectory) -> dict[str, float]:
    """The features of an interaction by name: log(1 + count) of each of `FEATURES`."""
    counts = dict.fromkeys(FEATURES, 0)
    team = {role["name"] for role in trajectory.about.get("roles", ()) if "name" in role}
    for event in trajectory.events:
        match event.kind:
            case "error":
                counts["run.errors"] += 1
            case "message":
                counts["run.messages"] += not team or event.role in team
            case "model_call":
                counts["run.model_calls"] += 1
            case "tool_call":
                counts["run.tool_calls"] += 1
            case "tool_result":
                counts["run.tool_failures"] += event.data.get("ok") is False
        counts["run.tokens"] += event.usage.completion_tokens if event.usage else 0
    counts["run.unfinished"] = trajectory.stop_reason not in ("finished", "idle")
    return {name: math.log1p(max(count, 0)) for name, count in counts.items()}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and standard deviation (population) of a name over the runs a reward was made from."""

    mean: float
    std: float
    runs: int
    """Runs in which it was measured."""

    def standardised(self, value: float, limit: float) -> float:
        """Standard deviations above the mean, cut off at ± `limit`.

        A name that never differed has a deviation of 0; 1 is taken for it.
        """
        return max(-limit, min(limit, (value - self.mean) / (self.std or 1.0)))


def statistics(observations: Iterable[Observation], names: Iterable[str]) -> dict[str, Statistics]:
    """The statistics of `names`. Raises `UsageError` for a name that no run has measured."""
    seen = list(observations)
    found = {}
    for name in names:
        values = [each.values[name] for each in seen if name in each.values]
        if not values:
            known = sorted({name for each in seen for name in each.values})
            raise UsageError(
                f"`{name}` was measured in none of the {len(seen)} runs. Measured were: "
                f"{', '.join(f'`{name}`' for name in known) or 'nothing'}."
            )
        mean = math.fsum(values) / len(values)
        variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
        std = math.sqrt(variance)
        found[name] = Statistics(
            mean, 0.0 if std < 1e-9 * max(1.0, abs(mean)) else std, len(values)
        )
    return found
