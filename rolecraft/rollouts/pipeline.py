"""The rollout pipeline: many items at once through prepare, run and grade.

    async for rollout in rollouts(stages, tasks, PipelineSettings(live=96, run=64)):
        ...

Invariant: every item that was taken in comes out exactly once, as a `Rollout`, whatever raises,
hangs or is cancelled; what `prepare` made is closed before; and no more than `live` of it exists
at any time. What one item does costs that item only.

An item has one task, which goes from stage to stage and waits for a worker before each; so a full
stage holds up those before it, and nothing is queued beyond what is alive. Time limits cancel.
What then does not end is left behind: its place is given to the next, and its result is a timeout.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any, Generic, TypeVar, get_args

from rolecraft._log import log
from rolecraft.actions._threads import context_with
from rolecraft.rollouts._in_flight import InFlight
from rolecraft.rollouts._intake import Intake
from rolecraft.rollouts.endings import (
    StageCancelled,
    StageTimeout,
    is_worth_another_try,
    of_error,
)
from rolecraft.rollouts.events import PipelineEvent, What, in_short
from rolecraft.rollouts.heap import set_aside
from rolecraft.rollouts.result import Rollout
from rolecraft.rollouts.settings import PipelineSettings, Stage
from rolecraft.rollouts.stages import Records, Stages

Item = TypeVar("Item")
Live = TypeVar("Live")
Result = TypeVar("Result")
T = TypeVar("T")

LONGEST_PAUSE = 60.0
"""Seconds between two attempts at most."""


async def rollouts(
    stages: Stages[Item, Live, Result],
    items: Iterable[Item] | AsyncIterable[Item],
    settings: PipelineSettings | None = None,
    *,
    on_event: Callable[[PipelineEvent], None] | None = None,
    predicted: Callable[[Item], float] | None = None,
) -> AsyncGenerator[Rollout[Item, Result], None]:
    """Put `items` through `stages`; their results as they come, one for each.

    Items are taken in when there is room for them, so there may be any number. `on_event` hears
    of everything, in the event loop, and of `done` before the place of the item is free again;
    what it raises ends the pipeline and comes out. `predicted` says how long an item will take,
    for `order="longest"`. Leaving the iterator early (`aclose`, or `contextlib.aclosing` around
    it) cancels and closes what is alive.

    Raises what reading the items raises, once those that were read are done, and what `stages`
    raises when it is entered.
    """
    async with AsyncExitStack() as stack:
        pipeline = _Pipeline(stages, items, settings or PipelineSettings(), on_event, predicted)
        stack.enter_context(set_aside())
        if isinstance(stages, AbstractAsyncContextManager):
            await stack.enter_async_context(stages)
        stack.push_async_callback(pipeline.aclose)
        pipeline.start()
        while (rollout := await pipeline.next()) is not None:
            yield rollout


class _Pipeline(Generic[Item, Live, Result]):
    def __init__(
        self,
        stages: Stages[Item, Live, Result],
        items: Iterable[Item] | AsyncIterable[Item],
        settings: PipelineSettings,
        on_event: Callable[[PipelineEvent], None] | None,
        predicted: Callable[[Item], float] | None,
    ) -> None:
        self._stages, self._settings, self._on_event = stages, settings, on_event
        self._records = stages if isinstance(stages, Records) else None
        self._intake = Intake(items, settings, predicted)
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._live = asyncio.Semaphore(settings.live)
        self._workers = {stage: _workers(settings.workers(stage)) for stage in get_args(Stage)}
        self._seconds = {stage: settings.seconds(stage) for stage in get_args(Stage)}
        self._context = context_with(settings.tool_workers)
        self._alive: dict[int, InFlight[Item]] = {}
        self._done: deque[Rollout[Item, Result]] = deque()
        self._news = asyncio.Event()
        """Something is done, or there is room again: whoever waits looks again."""
        self._room = asyncio.Event()
        self._feeder: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None
        """What reading the items raised."""
        self._told: BaseException | None = None
        """What `on_event` raised."""
        self._leaving = False

    # --- the outside --------------------------------------------------------------------------

    def start(self) -> None:
        self._feeder = self._loop.create_task(self._feed(), context=self._context)

    async def next(self) -> Rollout[Item, Result] | None:
        """The next result; None after the last."""
        assert self._feeder is not None
        while True:
            if self._told is not None:
                raise self._told
            if self._done:
                self._room.set()
                return self._done.popleft()
            if self._feeder.done() and not self._alive:
                if self._broken is not None:
                    raise self._broken
                return None
            self._news.clear()
            await self._news.wait()

    async def aclose(self) -> None:
        """Cancel and close everything that is alive."""
        self._leaving = True
        assert self._feeder is not None
        self._feeder.cancel()
        # Meanwhile every item's task has begun: one that had not could not say that it is over.
        await asyncio.gather(self._feeder, return_exceptions=True)
        for entry in list(self._alive.values()):
            if entry.stage != "close" and entry.task is not None:
                entry.task.cancel()
                if entry.stage is not None:
                    self._must_end(entry)
        while self._alive:
            self._news.clear()
            await self._news.wait()
        await self._intake.aclose()

    # --- taking in ----------------------------------------------------------------------------

    async def _feed(self) -> None:
        try:
            while True:
                while (room := self._room_inside()) < 1:
                    self._room.clear()
                    await self._room.wait()
                await self._live.acquire()
                try:
                    taken = await self._intake.next(room)
                except BaseException:
                    self._live.release()
                    raise
                if taken is None:
                    self._live.release()
                    return
                self._take_in(InFlight(*taken))
        except Exception as error:
            self._broken = error
        finally:
            self._loop.call_soon(self._news.set)  # once this task is done

    def _room_inside(self) -> int:
        return self._settings.most_inside - len(self._alive) - len(self._done)

    def _take_in(self, entry: InFlight[Item]) -> None:
        self._alive[entry.index] = entry
        entry.task = self._loop.create_task(self._work(entry), context=self._context.copy())
        if self._on_event is not None:
            self._tell("taken", entry)

    # --- one item -----------------------------------------------------------------------------

    async def _work(self, entry: InFlight[Item]) -> None:
        """All attempts at an item. Ends with `_settle`, unless somebody else has taken it over."""
        try:
            while (pause := await self._attempt(entry)) is not None:
                self._tell("again", entry, seconds=pause, error=entry.error)
                await asyncio.sleep(pause)
        except asyncio.CancelledError:  # between two attempts
            entry.ended, entry.error = "cancelled", StageCancelled("prepare")
        finally:
            if not entry.given_up:
                self._settle(entry)

    async def _attempt(self, entry: InFlight[Item]) -> float | None:
        """Try once. The pause before the next attempt, None if there shall be none."""
        stages, item = self._stages, entry.item
        entry.attempts += 1
        entry.error = entry.close_error = entry.episode = entry.trajectory = None
        stage: Stage = "prepare"
        try:
            live = await self._stage(entry, stage, stages.prepare, item)
            entry.live.append(live)
            if entry.given_up:
                raise StageCancelled(stage)
            stage = "run"
            ended = await self._stage(entry, stage, stages.run, item, live)
            if entry.given_up:
                raise StageCancelled(stage)
            stage = "grade"
            entry.episode = await self._stage(entry, stage, stages.grade, item, live)
            entry.ended = ended or "finished"
        except (Exception, asyncio.CancelledError) as raised:
            if not entry.given_up:
                entry.error = _as_exception(raised, stage)
                entry.ended = of_error(entry.error, stage)
        await self._close(entry)
        if (
            entry.error is None
            or entry.given_up
            or self._leaving
            or entry.attempts >= self._settings.attempts
            or not is_worth_another_try(entry.error, stage)
        ):
            return None
        pause = self._settings.backoff_seconds * 2.0 ** (entry.attempts - 1)
        return min(LONGEST_PAUSE, pause) * random.uniform(0.5, 1.0)

    async def _stage(
        self, entry: InFlight[Item], stage: Stage, work: Callable[..., Awaitable[T]], *args: Any
    ) -> T:
        """Do `work` with a worker of the stage, within its time."""
        workers = self._workers[stage]
        if workers is not None:
            waiting = time.monotonic()
            await workers.acquire()
            entry.held = workers
            entry.waited += time.monotonic() - waiting
        entry.stage = stage
        if self._on_event is not None:
            self._tell("begins", entry)
        began, error = time.monotonic(), None
        seconds = self._seconds[stage]
        if seconds is not None:
            entry.timer = self._loop.call_later(seconds, self._expire, entry)
        try:
            result = await work(*args)
            if entry.expired and stage in ("run", "grade"):
                raise TimeoutError  # it went on though it was cancelled: a limit holds all the same
            return result
        except BaseException as raised:
            error = raised
            if entry.expired and not self._leaving:
                assert seconds is not None
                error = StageTimeout(stage, seconds)
                raise error from raised
            raise
        finally:
            if not entry.given_up:
                self._leave(entry, began, error)

    def _leave(self, entry: InFlight[Item], began: float, error: BaseException | None) -> None:
        stage = entry.stage
        assert stage is not None
        seconds = time.monotonic() - began
        entry.seconds[stage] = entry.seconds.get(stage, 0.0) + seconds
        if self._on_event is not None:
            self._tell("ends", entry, seconds=seconds, error=error)
        entry.stage = None
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        if entry.expired:
            entry.expired = False
            assert entry.task is not None
            entry.task.uncancel()
        if entry.held is not None:
            entry.held.release()
            entry.held = None

    # --- closing ------------------------------------------------------------------------------

    async def _close(self, entry: InFlight[Item]) -> None:
        """Close what `prepare` made, if that has not been done. Nothing is raised."""
        if not entry.live:
            return
        live = entry.live.pop()
        if entry.given_up:
            await self._close_late(entry.item, live)
            return
        if self._records is not None:
            entry.trajectory = self._records.recorded(entry.item, live)
        entry.stage = "close"  # from here on nobody cancels it
        if (task := asyncio.current_task()) is not None and task.cancelling():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # a cancellation on its way must not hit `close`
        try:
            await self._stage(entry, "close", self._stages.close, entry.item, live)
        except (Exception, asyncio.CancelledError) as error:
            if not entry.given_up:
                entry.close_error = _as_exception(error, "close")

    async def _close_late(self, item: Item, live: Live) -> None:
        """Close what a `prepare` returned that had been given up, and whose result is out."""
        try:
            async with asyncio.timeout(self._seconds["close"]):
                await self._stages.close(item, live)
        except Exception as error:
            log.warning("Closing what a given-up `prepare` made failed: {}", in_short(error))

    # --- what does not end --------------------------------------------------------------------

    def _expire(self, entry: InFlight[Item]) -> None:
        """The entry's time in its stage is over: cancel it, and see that it ends."""
        assert entry.task is not None
        entry.expired = True
        entry.task.cancel()
        self._must_end(entry)

    def _must_end(self, entry: InFlight[Item]) -> None:
        """Give up the entry's task, which was cancelled, unless it leaves its stage in time."""
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        if (grace := self._seconds["close"]) is not None:
            entry.timer = self._loop.call_later(grace, self._give_up, entry)

    def _give_up(self, entry: InFlight[Item]) -> None:
        """Leave the entry's task behind: it was cancelled, and has not ended."""
        stage = entry.stage
        assert stage is not None
        entry.given_up = True
        entry.timer = None
        error = StageTimeout(stage, self._seconds[stage] or 0.0)
        if stage == "close":
            entry.close_error = error
        else:
            entry.error, entry.ended = error, of_error(error, stage)
        self._tell("left", entry, error=error)
        if entry.held is not None:
            entry.held.release()
            entry.held = None
        heir = InFlight(entry.index, entry.item)
        for name in ("attempts", "waited", "seconds", "ended", "error", "close_error", "episode"):
            setattr(heir, name, getattr(entry, name))
        heir.live, entry.live = entry.live, []
        self._alive[entry.index] = heir
        heir.task = self._loop.create_task(self._wind_up(heir), context=self._context.copy())

    async def _wind_up(self, heir: InFlight[Item]) -> None:
        await self._close(heir)
        if not heir.given_up:
            self._settle(heir)

    # --- the end of it ------------------------------------------------------------------------

    def _settle(self, entry: InFlight[Item]) -> None:
        rollout: Rollout[Item, Result] = Rollout(
            index=entry.index,
            item=entry.item,
            ended=entry.ended,
            episode=entry.episode,
            trajectory=entry.trajectory or getattr(entry.episode, "trajectory", None),
            error=entry.error,
            close_error=entry.close_error,
            attempts=entry.attempts,
            waited=entry.waited,
            seconds=entry.seconds,
        )
        del self._alive[entry.index]
        self._done.append(rollout)
        if self._on_event is not None:
            self._tell("done", entry, ended=entry.ended, error=entry.error, rollout=rollout)
        self._live.release()
        self._news.set()

    def _tell(
        self,
        what: What,
        entry: InFlight[Item],
        *,
        error: BaseException | None = None,
        **more: Any,
    ) -> None:
        if self._on_event is None or self._told is not None:
            return
        event = PipelineEvent(
            what=what,
            time=time.monotonic() - self._began,
            index=entry.index,
            stage=entry.stage,
            attempt=max(1, entry.attempts),
            error=in_short(error),
            **more,
        )
        try:
            self._on_event(event)
        except Exception as raised:
            self._told = raised
            self._news.set()


def _workers(number: int | None) -> asyncio.Semaphore | None:
    return None if number is None else asyncio.Semaphore(number)


def _as_exception(error: BaseException, stage: Stage) -> Exception:
    return error if isinstance(error, Exception) else StageCancelled(stage)
