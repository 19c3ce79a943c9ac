"""What a pipeline yields: one `Rollout` for each item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rolecraft.rollouts.endings import OF_NOBODY, Ended
from rolecraft.rollouts.settings import Stage
from rolecraft.trajectories.trajectory import Trajectory

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout(Generic[Item, Result]):
    """What became of one item.

    `episode` is what `grade` returned, None where it did not come to that; `error` then is what
    was raised. Nothing is ever filled in from another item.
    """

    index: int
    """Its place among the items put in, from 0."""
    item: Item
    ended: Ended
    episode: Result | None = None
    trajectory: Trajectory | None = None
    """What was recorded, where anything was."""
    error: Exception | None = None
    close_error: Exception | None = None
    """What closing raised: the result counts, and something of its environment may be left."""
    attempts: int = 1
    waited: float = 0.0
    """Seconds that it waited for workers while it was alive."""
    seconds: Mapping[Stage, float] = field(default_factory=dict)
    """Seconds in each stage, of all attempts together."""

    @property
    def task(self) -> Item:
        """The item, by the name that it has in a scenario."""
        return self.item

    @property
    def reward(self) -> float | None:
        """The episode's reward; None where there is none, which is no reward of 0."""
        breakdown: Any = getattr(self.episode, "reward", None)
        return None if breakdown is None else float(getattr(breakdown, "value", breakdown))

    @property
    def says_something(self) -> bool:
        """Whether this is about the team, and not about a machine that failed it."""
        return self.ended not in OF_NOBODY
