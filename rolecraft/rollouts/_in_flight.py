"""An item while it is inside a pipeline."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from rolecraft.rollouts.endings import Ended
from rolecraft.rollouts.settings import Stage

Item = TypeVar("Item")


class InFlight(Generic[Item]):
    """What is known of an item, and what it holds."""

    __slots__ = (
        "attempts", "close_error", "ended", "episode", "error", "expired", "given_up", "held",
        "index", "item", "live", "seconds", "stage", "task", "timer", "trajectory", "waited",
    )  # fmt: skip

    def __init__(self, index: int, item: Item) -> None:
        self.index, self.item = index, item
        self.task: asyncio.Task[None] | None = None
        self.stage: Stage | None = None
        """The stage that it is in; None while it waits for one."""
        self.held: asyncio.Semaphore | None = None
        """The workers of which it has one."""
        self.timer: asyncio.TimerHandle | None = None
        """What cancels its stage, and then gives it up."""
        self.expired = False
        """Whether its stage was cancelled because its time was over."""
        self.live: list[Any] = []
        """What `prepare` returned and nobody has closed: one thing or none."""
        self.given_up = False
        """Whether its task was left behind, and what the task does no longer counts."""
        self.attempts, self.waited = 0, 0.0
        self.seconds: dict[Stage, float] = {}
        self.ended: Ended = "cancelled"
        self.episode: Any = None
        self.trajectory: Any = None
        self.error: Exception | None = None
        self.close_error: Exception | None = None
