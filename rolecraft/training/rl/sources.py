"""Where the episodes of a step come from.

A source is entered with `async with`, asked for the episodes of one step after the other, and told
when the step was learnt from. Here is the one that plays them while nothing else happens; others
play ahead (`stream.py`) or read what was recorded (`schedule.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from rolecraft.environments.task import Task
from rolecraft.training.rl.playing import Played, Player, attempts, seed_of
from rolecraft.training.rl.stages import Chooser

OnChosen = Callable[[Sequence[Task]], None]
"""Hears of tasks before they are played."""


class Source(Protocol):
    """Episodes to learn from, step by step."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def next(self, step: int) -> Played:
        """What `step` (from 0) learns from. Raises the first error if all of it failed."""
        ...

    async def more(self, step: int, count: int, number: int) -> Played:
        """The attempts at `count` further tasks for `step`, asked for the `number`-th time."""
        ...

    def learnt(self, played: Played) -> None:
        """A step has learnt from this, and its weights are what the next calls get."""
        ...

    def state(self) -> dict[str, Any]:
        """What a training goes on from, for `torch.save`."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """What `state` gave; before it is entered."""
        ...


class Together:
    """Plays a step's episodes with the weights as they are, all of them together."""

    def __init__(
        self,
        player: Player,
        chooser: Chooser,
        *,
        tasks_per_step: int,
        group: int,
        seed: int,
        on_chosen: OnChosen,
    ) -> None:
        self._player, self._chooser, self._on_chosen = player, chooser, on_chosen
        self._tasks_per_step, self._group, self._seed = tasks_per_step, group, seed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing is left open."""

    async def next(self, step: int) -> Played:
        return await self._play(self._tasks_per_step, self._seed, step)

    async def more(self, step: int, count: int, number: int) -> Played:
        return await self._play(count, seed_of(self._seed, number), step)

    async def _play(self, count: int, seed: int, step: int) -> Played:
        tasks = self._chooser.choose(count, seed=seed, step=step)
        self._on_chosen(tasks)
        return await self._player.play(attempts(tasks, self._group, seed, step))

    def learnt(self, played: Played) -> None:
        self._chooser.learn(played.rollouts)

    def state(self) -> dict[str, Any]:
        return {"chooser": self._chooser.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        self._chooser.load_state(state["chooser"])
