"""The actors of a pipeline: started, watched, replaced when they die, and items put on them.

Invariant: a worker that was lost gets no item any more, and every call to it has ended or will;
no actor of ours outlives `stop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from rolecraft._log import log
from rolecraft.errors import UsageError
from rolecraft.rollouts.remote._cluster import actor_options, load_ray, nodes
from rolecraft.rollouts.remote._transit import taken
from rolecraft.rollouts.remote._worker import Worker
from rolecraft.rollouts.remote.errors import WorkerLost

STARTS = 3
"""How often in a row a worker may die before it was ready; then it is given up."""
PAUSE_SECONDS = 1.0
PING_SECONDS = 10.0
"""The pause between two signs of life."""
SILENCE_SECONDS = 120.0
"""A worker whose loop has not answered for so long is killed: something blocks it."""
LEAVE_SECONDS = 60.0
GATHER_SECONDS = 30.0
"""How long the first worker waits for the others, so that they share the items from the start."""


class Seat:
    """An actor, as the driver sees it: how many items are on it, and whether it lives."""

    def __init__(self, number: int, actor: Any, news: asyncio.Event) -> None:
        self.number, self.actor = number, actor
        self.taken = 0
        self._news = news
        self.gone = asyncio.Event()
        self.reason = ""

    async def ask(self, method: str, *arguments: Any) -> Any:
        """What the worker returned; raises what it raised, and `WorkerLost` if it died."""
        ray = load_ray()
        if self.gone.is_set():
            raise WorkerLost(self.number, self.reason)
        try:
            data = await getattr(self.actor, method).remote(*arguments)
        except ray.exceptions.RayTaskError:
            raise  # a mistake of ours in `Worker`
        except ray.exceptions.RayError as error:
            self.lose(_first_line(error))
            raise WorkerLost(self.number, self.reason) from error
        return taken(data) if isinstance(data, bytes) else data

    def free(self) -> None:
        """Give a place back."""
        self.taken -= 1
        self._news.set()

    def lose(self, reason: str) -> None:
        """It is dead, or shall be."""
        if not self.gone.is_set():
            self.reason = reason
            self.gone.set()
        ray = load_ray()
        if ray.is_initialized():  # else `kill` would start a cluster
            with suppress(ray.exceptions.RayError):  # with the cluster gone, so is the actor
                ray.kill(self.actor, no_restart=True)


class Workers:
    """As many actors as asked for, each with `places` for items; None: one on each machine."""

    def __init__(
        self,
        payload: bytes,
        *,
        count: int | None,
        places: int,
        tool_workers: int,
        resources: Mapping[str, float],
        runtime_env: Mapping[str, Any] | None,
    ) -> None:
        self._count, self._places, self._resources = count, places, dict(resources)
        self._entering = (payload, tool_workers, version("rolecraft"))
        # Each item is in one stage, and there are cancellations and signs of life.
        self._options = actor_options(resources, runtime_env, 2 * places + 8)
        self._ready: list[Seat] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()
        self._failed: Exception | None = None
        """Why the last worker that was given up could not start."""
        self.lost = 0
        """How many workers were lost so far."""

    async def start(self, seconds: float | None) -> None:
        """Until all are ready, or the first has been for a while; others join when they are.

        Raises what entering the stages raised if no worker could, and `UsageError` if none is
        ready after `seconds`.
        """
        ray = load_ray()
        count = self._count
        if count is None:
            count = await asyncio.to_thread(nodes, ray)
        self._tasks = [asyncio.create_task(self._keep(number)) for number in range(count)]
        try:
            async with asyncio.timeout(seconds):
                await self._some_ready()
        except TimeoutError as error:
            there = await asyncio.to_thread(ray.cluster_resources)
            raise UsageError(
                f"No worker was ready within {seconds:g} s. Each wants {self._resources}, and the "
                f"cluster has {_shown(there)}. Ask for less with `RayStages(resources=...)`, or "
                f"wait longer with `start_seconds`."
            ) from error
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                while len(self._ready) < sum(not task.done() for task in self._tasks):
                    await self._change()

    async def place(self) -> Seat:
        """A place on the ready worker with the fewest items. Raises `WorkerLost` if none is left.

        Waits while all are full or starting.
        """
        while True:
            await self._some_ready()
            free = [seat for seat in self._living if seat.taken < self._places]
            if free:
                seat = min(free, key=lambda each: each.taken)
                seat.taken += 1
                return seat
            await self._change()

    async def stop(self) -> None:
        """Let every worker leave its stages, and end them all."""
        ready = self._living
        try:
            left = await asyncio.gather(
                *(self._leave(seat) for seat in ready), return_exceptions=True
            )
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for outcome in left:
            if isinstance(outcome, BaseException) and not isinstance(outcome, WorkerLost):
                raise outcome

    @property
    def _living(self) -> list[Seat]:
        """Those that are ready; one that was lost a moment ago is in `_ready` still."""
        return [seat for seat in self._ready if not seat.gone.is_set()]

    async def _some_ready(self) -> None:
        while not self._living:
            if all(task.done() for task in self._tasks):
                if self._failed is not None and not isinstance(self._failed, WorkerLost):
                    raise self._failed
                raise WorkerLost(None, str(self._failed)) from self._failed
            await self._change()

    async def _change(self) -> None:
        self._news.clear()
        await self._news.wait()

    # --- one of them --------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Start a worker, and start it again whenever it is lost."""
        failures = 0
        try:
            while failures < STARTS:
                seat = Seat(number, self._new_actor(), self._news)
                try:
                    await seat.ask("enter", *self._entering)
                    failures = 0
                    self._ready.append(seat)
                    self._news.set()
                    await self._watch(seat)
                except WorkerLost as error:
                    self._failed, failures = error, failures + 1
                finally:
                    if seat in self._ready:
                        self._ready.remove(seat)
                    seat.lose("the rollouts are over")
                self.lost += 1
                log.warning("Worker {} was lost: {}", number, seat.reason)
                await asyncio.sleep(PAUSE_SECONDS)
        except Exception as error:  # what the stages raised when they were entered
            self._failed = error
            log.warning("Worker {} cannot start: {}", number, error)
        finally:
            asyncio.get_running_loop().call_soon(self._news.set)  # once this task is done

    async def _watch(self, seat: Seat) -> None:
        """Until it is lost. One whose loop does not answer is killed."""
        while not seat.gone.is_set():
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await seat.gone.wait()
            except TimeoutError:
                try:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        await seat.ask("ping")
                except TimeoutError:
                    seat.lose(
                        f"its event loop did not answer for {SILENCE_SECONDS:g} s, so it was "
                        f"killed. Something in a stage blocks it: put what takes long into a "
                        f"synchronous tool, or into `asyncio.to_thread`."
                    )
                except WorkerLost:
                    return

    def _new_actor(self) -> Any:
        return load_ray().remote(**self._options)(Worker).remote()

    async def _leave(self, seat: Seat) -> None:
        async with asyncio.timeout(LEAVE_SECONDS):
            await seat.ask("leave")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _shown(resources: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in resources.items() if not name.startswith("node:")}
