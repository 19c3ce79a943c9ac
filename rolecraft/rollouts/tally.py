"""What a pipeline is doing now, counted from its events."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, get_args

from rolecraft.rollouts.endings import OF_NOBODY
from rolecraft.rollouts.events import PipelineEvent
from rolecraft.rollouts.result import Rollout
from rolecraft.rollouts.settings import Stage
from rolecraft.trajectories.events import Usage

STAGES: tuple[Stage, ...] = get_args(Stage)


class Tally:
    """Hears the events of one pipeline: give it to `rollouts(..., on_event=tally)`."""

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        """How many items there will be, where that is known."""
        self.alive = 0
        self.most_alive = 0
        self.inside: Counter[Stage] = Counter()
        """Items in each stage now."""
        self.done = 0
        self.again = 0
        """Attempts that were not the first."""
        self.left = 0
        """Items of which something would not end and was left behind."""
        self.endings: Counter[str] = Counter()
        self.rewards = self.reward = 0.0
        self.rewarded = 0
        self.usage = Usage(calls=0)
        self._where: dict[int, Stage] = {}
        self._began = time.monotonic()

    def __call__(self, event: PipelineEvent) -> None:
        match event.what:
            case "taken":
                self.alive += 1
                self.most_alive = max(self.most_alive, self.alive)
            case "begins" if event.stage is not None:
                self._is_in(event.index, event.stage)
            case "ends" | "left":
                self._is_in(event.index, None)
                self.left += event.what == "left"
            case "again":
                self.again += 1
            case "done":
                self._is_in(event.index, None)
                self.alive -= 1
                self.done += 1
                self.endings[event.ended or ""] += 1
                if event.rollout is not None:
                    self._count(event.rollout)

    def _is_in(self, index: int, stage: Stage | None) -> None:
        if (before := self._where.pop(index, None)) is not None:
            self.inside[before] -= 1
        if stage is not None:
            self._where[index] = stage
            self.inside[stage] += 1

    def _count(self, rollout: Rollout[Any, Any]) -> None:
        if rollout.trajectory is not None:
            self.usage = self.usage + rollout.trajectory.usage
        if rollout.reward is not None:
            self.rewards += rollout.reward
            self.rewarded += 1
            self.reward = self.rewards / self.rewarded

    @property
    def seconds(self) -> float:
        """Since the tally was made."""
        return time.monotonic() - self._began

    @property
    def failed(self) -> int:
        """Items that say nothing about the team: surroundings failed them."""
        return sum(number for word, number in self.endings.items() if word in OF_NOBODY)

    def words(self) -> str:
        """All of it in one line."""
        of = "" if self.total is None else f" of {self.total}"
        parts = [f"{self.done}{of} done, {self.done / max(self.seconds, 1e-9):.2f}/s"]
        busy = [f"{stage} {self.inside[stage]}" for stage in STAGES if self.inside[stage]]
        parts.append(f"{self.alive} alive" + (f" ({', '.join(busy)})" if busy else ""))
        if self.rewarded:
            parts.append(f"reward {self.reward:.3f}")
        if self.usage.calls:
            price = "price unknown" if self.usage.usd is None else f"${self.usage.usd:.2f}"
            parts.append(f"{self.usage.calls} calls, {price}")
        parts += [f"{word} {number}" for word, number in self.endings.most_common()]
        if self.again:
            parts.append(f"{self.again} tried again")
        if self.left:
            parts.append(f"{self.left} left behind")
        return "; ".join(parts)
