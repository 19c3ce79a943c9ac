"""Episodes that go on while the trainer works, under a strict bound of staleness.

Invariants: no episode is handed out whose oldest trained token was sampled more than
`max_staleness` versions before the one that learns from it; what is staler is dropped, counted and
played again, in the queue as well as on arrival. At most `max_staleness + 1` steps' episodes are
under way or waiting, since what is begun earlier would only become stale. Every attempt of a group
comes out once, or is given up where the surroundings failed it again and again. Judges that compare
the attempts of a group are asked as soon as it is whole, and again when one of them was replaced.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Self

from rolecraft.environments.task import Task
from rolecraft.rollouts import PipelineSettings, rollouts
from rolecraft.training.rl.garbage import garbage_goes
from rolecraft.training.rl.learner import Learner
from rolecraft.training.rl.playing import (
    Attempt,
    Compared,
    Played,
    Player,
    again,
    raise_if_all_failed,
    seed_of,
    settled,
    stopped,
    together,
)
from rolecraft.training.rl.sources import OnChosen
from rolecraft.training.rl.stages import Chooser


@dataclass(slots=True, eq=False)
class _Slot:
    """One attempt of a group, and what is known of it."""

    group: _Group
    task: Task
    played: Attempt | None = None
    oldest: int | None = None
    """Version of the oldest token that is learnt from; None if there is none."""
    failures: int = 0
    given_up: bool = False
    plays: int = 0
    """How often it was begun again."""

    @property
    def over(self) -> bool:
        return self.played is not None or self.given_up


@dataclass(slots=True, eq=False)
class _Group:
    place: tuple[int, int]
    """Round of choosing, and number within it."""
    slots: list[_Slot] = field(default_factory=list)
    comparing: asyncio.Task[Compared] | None = None
    """Where judges compare the attempts: from when all of them are there."""

    @property
    def complete(self) -> bool:
        return all(slot.over for slot in self.slots)

    @property
    def ready(self) -> bool:
        return self.complete and (self.comparing is None or self.comparing.done())

    @property
    def attempts(self) -> list[Attempt]:
        return [slot.played for slot in self.slots if slot.played is not None]


class Stream:
    """Plays ahead of the trainer, in the background of the event loop. See the module."""

    def __init__(
        self,
        player: Player,
        chooser: Chooser,
        learner: Learner,
        *,
        tasks_per_step: int,
        group: int,
        seed: int,
        max_staleness: int,
        refills: int,
        on_chosen: OnChosen,
        settings: PipelineSettings | None = None,
    ) -> None:
        self._player, self._chooser, self._learner = player, chooser, learner
        self._tasks_per_step, self._group, self._seed = tasks_per_step, group, seed
        self._max_staleness, self._refills, self._on_chosen = max_staleness, refills, on_chosen
        self._most = (max_staleness + 1) * tasks_per_step
        """Groups under way, waiting, or being learnt from."""
        self._settings = settings or together(self._most * group)
        self._round = 0
        self._chosen: deque[tuple[tuple[int, int], Task]] = deque()
        self._again: list[tuple[int, int]] = []
        """Places whose groups an earlier process had chosen and not learnt from."""
        self._groups: dict[tuple[int, int], _Group] = {}
        self._to_play: deque[_Slot] = deque()
        self._sent: dict[int, _Slot] = {}
        self._learning: list[tuple[int, int]] = []
        self._failed: list[Attempt] = []
        self._running = 0
        """Failures since the last attempt that came to something."""
        self._refilled = self._dropped = self._further = 0
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._comparisons: set[asyncio.Task[Compared]] = set()
        """Those under way."""

    async def __aenter__(self) -> Self:
        self._pump = asyncio.create_task(self._play())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._pump is not None
        await stopped([self._pump, *self._comparisons])

    async def next(self, step: int) -> Played:
        return await self._take(self._tasks_per_step)

    async def more(self, step: int, count: int, number: int) -> Played:
        # What the step has already keeps its places until it has learnt.
        self._further += count
        self._room.set()
        return await self._take(count)

    def learnt(self, played: Played) -> None:
        self._chooser.learn(played.rollouts)
        self._learning.clear()
        self._further = 0
        self._room.set()

    def state(self) -> dict[str, Any]:
        left = [*self._groups, *(place for place, _ in self._chosen), *self._again]
        return {
            "chooser": self._chooser.state(),
            "round": self._round,
            "left": [list(place) for place in sorted(left)],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self._chooser.load_state(state["chooser"])
        self._round = state["round"]
        self._again = [(first, second) for first, second in state["left"]]

    # --- handing out --------------------------------------------------------------------------

    async def _take(self, count: int) -> Played:
        began = time.monotonic()
        while True:
            self._sweep()
            ready = sorted(place for place, group in self._groups.items() if group.ready)
            if len(ready) >= count:
                break
            assert self._pump is not None
            # Failures are quick: all that fits in has to have failed, with all second chances.
            if self._running >= self._most * self._group * (self._refills + 1):
                raise_if_all_failed(self._failed[-self._running :])
            if self._pump.done():
                self._pump.result()
            self._news.clear()
            with garbage_goes():
                await self._news.wait()
        taken = [self._groups.pop(place) for place in ready[:count]]
        self._learning += ready[:count]
        played = Played(
            rollouts=settled(self._compared(taken), self._player.ungraded),
            failed=self._failed,
            refilled=self._refilled,
            dropped=self._dropped,
            seconds=time.monotonic() - began,
        )
        self._failed, self._refilled, self._dropped = [], 0, 0
        return played

    def _compared(self, groups: Sequence[_Group]) -> list[Attempt]:
        """Their attempts, as they are after judges have compared them. Raises what a judge did."""
        found = [
            Compared(group.attempts) if group.comparing is None else group.comparing.result()
            for group in groups
        ]
        self._player.tell(found)
        return [attempt for group in found for attempt in group.attempts]

    def _sweep(self) -> None:
        """Throw away what has become too stale, and play it again."""
        least = self._learner.version - self._max_staleness
        for group in self._groups.values():
            for slot in group.slots:
                if slot.played is not None and slot.oldest is not None and slot.oldest < least:
                    slot.played = slot.oldest = None
                    self._dropped += 1
                    self._play_again(slot)
                    if group.comparing is not None:  # it was with what is thrown away
                        group.comparing.cancel()
                        group.comparing = None

    # --- playing ------------------------------------------------------------------------------

    async def _play(self) -> None:
        try:
            done = rollouts(self._player.stages(), self._items(), self._settings)
            async with aclosing(done) as found:
                async for rollout in found:
                    self._arrived(self._sent.pop(rollout.index), rollout)
                    self._news.set()
        finally:
            self._news.set()

    async def _items(self) -> AsyncIterator[Task]:
        number = 0
        while True:
            while (slot := self._next_slot()) is None:
                self._room.clear()
                await self._room.wait()
            self._sent[number] = slot
            number += 1
            yield slot.task

    def _next_slot(self) -> _Slot | None:
        if not self._to_play and self._inside < self._most + self._further:
            self._begin_group()
        return self._to_play.popleft() if self._to_play else None

    @property
    def _inside(self) -> int:
        """Groups that have a place."""
        return len(self._groups) + len(self._learning)

    def _begin_group(self) -> None:
        if not self._chosen:
            self._choose()
        place, task = self._chosen.popleft()
        group = _Group(place)
        for attempt in range(self._group):
            seed = seed_of(self._seed, *place, attempt)
            group.slots.append(_Slot(group, Task(task.id, task.prompt, task.data, seed)))
        self._groups[place] = group
        self._to_play.extend(group.slots)

    def _choose(self) -> None:
        """Choose for the next round; first again for those that were left of earlier ones."""
        rounds = sorted({first for first, _ in self._again}) or [self._round]
        for number in rounds:
            tasks = self._chooser.choose(self._tasks_per_step, seed=self._seed, step=number)
            places = [(number, each) for each in range(len(tasks))]
            if self._again:
                places = [place for place in places if place in self._again]
            self._on_chosen([tasks[each] for _, each in places])
            self._chosen.extend((place, tasks[place[1]]) for place in places)
        if not self._again:
            self._round += 1
        self._again = []
        if not self._chosen:  # a curriculum has chosen fewer this time
            self._choose()

    def _arrived(self, slot: _Slot, rollout: Attempt) -> None:
        if not rollout.says_something:
            self._failed.append(rollout)
            self._running += 1
            slot.failures += 1
            if slot.failures > self._refills:
                slot.given_up = True
                self._drop_if_empty(slot.group)
                self._compare(slot.group)
            else:
                self._refilled += 1
                self._play_again(slot)
            return
        self._running = 0
        slot.played, slot.oldest = rollout, oldest_version(rollout, self._learner)
        self._compare(slot.group)

    def _compare(self, group: _Group) -> None:
        """Ask judges about a group that is whole now, while the trainer is at another."""
        if not (self._player.compares and group.complete and group.attempts):
            return
        comparing = asyncio.create_task(self._player.compared(group.attempts))
        group.comparing = comparing
        self._comparisons.add(comparing)
        comparing.add_done_callback(self._has_compared)

    def _has_compared(self, comparing: asyncio.Task[Compared]) -> None:
        self._comparisons.discard(comparing)
        if not comparing.cancelled():
            comparing.exception()  # it comes out where the group is taken, if it still is
        self._news.set()

    def _play_again(self, slot: _Slot) -> None:
        slot.plays += 1
        slot.task = again(slot.task, slot.plays)
        self._to_play.appendleft(slot)
        self._room.set()

    def _drop_if_empty(self, group: _Group) -> None:
        if all(slot.given_up for slot in group.slots):
            self._groups.pop(group.place, None)
            self._room.set()


def oldest_version(rollout: Attempt, learner: Learner) -> int | None:
    """Of the tokens that are learnt from; None if there are none."""
    versions = versions_of(rollout, learner)
    return min(versions, default=None)


def versions_of(rollout: Attempt, learner: Learner) -> Sequence[int]:
    """Of each model call whose tokens are learnt from."""
    trajectory = rollout.trajectory or getattr(rollout.episode, "trajectory", None)
    if trajectory is None:
        return []
    return [
        event.tokens.version
        for event in trajectory.of("model_call")
        if event.tokens is not None and learner.trains(event.role)
    ]
