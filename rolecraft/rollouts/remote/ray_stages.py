"""Stages that happen on other machines, for the same pipeline.

    stages = RayStages(ScenarioStages(repair, model="openai/gpt-4o-mini"), workers=16)
    async for rollout in rollouts(stages, tasks, PipelineSettings(live=512)):
        ...

Each environment lives in a Ray actor from `prepare` to `close`. The budget, the order, time
limits, attempts and the one result of each item stay with the pipeline, in this process; so do the
results, as soon as they are there. An item whose actor or machine dies raises `WorkerLost`, which
the pipeline tries again, on another worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, Self, TypeVar

from rolecraft.errors import JournalError, UsageError
from rolecraft.rollouts.endings import Ended
from rolecraft.rollouts.remote._cluster import LOCAL, connect, disconnect, load_ray
from rolecraft.rollouts.remote._transit import ITEM_WAY_OUT, STAGES_WAY_OUT, packed
from rolecraft.rollouts.remote._worker import are_stages
from rolecraft.rollouts.remote._workers import Seat, Workers
from rolecraft.rollouts.stages import Stages
from rolecraft.trajectories.trajectory import Trajectory

Item = TypeVar("Item")
Result = TypeVar("Result")

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts to open a journal that the process of a lost worker may hold still."""

CLEANING_SECONDS = 10.0
"""How long the workers are kept for what was cancelled, did not end, and has been given up."""


@dataclass(eq=False, slots=True)
class RemoteLive:
    """An environment in a worker. `result` and `trajectory` are what came back of it."""

    seat: Seat
    key: int
    result: Any = None
    trajectory: Trajectory | None = None


class RayStages(Generic[Item, Result]):
    """Plays the stages of `stages` in Ray actors.

    - `stages`: the stages, which are pickled for each worker; or a function without arguments that
      makes them, which each worker calls. Each worker enters them once, so a model that is named
      in text is made once in each.
    - `workers`: how many actors; None for one on each machine. Those that Ray finds no resources
      for yet join the others when it does.
    - `places`: items on one worker at once. What finds no place waits in `prepare`, so
      `workers * places` should be the pipeline's `live` at least, with room for lost workers.
    - `resources`: what Ray sets aside for each worker, by Ray's names (`CPU`, `GPU`, `memory` in
      bytes, your own).
    - `address`: of the cluster; `"local"` for one of this process alone. Where this process is
      connected to one (`ray.init`), that one is used, and left connected.
    - `tool_workers`: threads of one worker for synchronous tools and rewards.
    - `runtime_env`: what Ray prepares for each worker: `env_vars`, `working_dir`, … Where this
      process was connected before, Ray takes folders of this machine from `ray.init` only.
    - `start_seconds`: how long to wait for the first worker; None: as long as it takes.

    Entering raises `MissingExtra` without Ray, `NotSendable` for stages that cannot be pickled,
    `UsageError` where there is no cluster or no room in it, and what entering `stages` raises.
    """

    def __init__(
        self,
        stages: Stages[Item, Any, Result] | Callable[[], Stages[Item, Any, Result]],
        *,
        workers: int | None = None,
        places: int = 256,
        resources: Mapping[str, float] | None = None,
        address: str = LOCAL,
        tool_workers: int = 64,
        runtime_env: Mapping[str, Any] | None = None,
        start_seconds: float | None = 600.0,
    ) -> None:
        for name, value in (
            ("workers", 1 if workers is None else workers),
            ("places", places),
            ("tool_workers", tool_workers),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"`{name}` is {value!r}, expected a whole number from 1.")
        if not are_stages(stages) and not callable(stages):
            raise UsageError(f"`stages` is {stages!r}, expected stages or a function of none.")
        self._given, self._address, self._start_seconds = stages, address, start_seconds
        self._options: dict[str, Any] = {
            "count": workers,
            "places": places,
            "tool_workers": tool_workers,
            "resources": {"CPU": 1} if resources is None else resources,
        }
        self._runtime_env = runtime_env
        self._workers: Workers | None = None
        self._connected = False
        self._keys = count()
        self._cleaning: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        if self._workers is not None:
            raise UsageError("`RayStages` plays one pipeline at a time: make one for each.")
        await asyncio.to_thread(load_ray)  # seconds
        payload = packed(self._given, "`stages`", "stages", STAGES_WAY_OUT)
        self._connected = await connect(self._address, self._runtime_env)
        try:
            own = None if self._connected else self._runtime_env
            self._workers = Workers(payload, runtime_env=own, **self._options)
            await self._workers.start(self._start_seconds)
        except BaseException:
            await self._aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._aclose()

    async def prepare(self, item: Item) -> RemoteLive:
        """The environment, set up in the worker with the fewest items."""
        data = packed(item, "An item", "item", ITEM_WAY_OUT)
        for pause in PAUSES:
            try:
                return await self._prepared(data)
            except JournalError:
                if not self._there.lost:
                    raise
                await asyncio.sleep(pause)
        return await self._prepared(data)

    async def run(self, item: Item, live: RemoteLive) -> Ended | None:
        """The roles act, there."""
        ended: Ended | None = await self._asked(live, "run")
        return ended

    async def grade(self, item: Item, live: RemoteLive) -> Result:
        """What `grade` returned there, whole."""
        live.result = await self._asked(live, "grade")
        result: Result = live.result
        return result

    async def close(self, item: Item, live: RemoteLive) -> None:
        """Close the environment, and take what was recorded along."""
        try:
            error, recorded = await self._asked(live, "close")
        finally:
            live.seat.free()
        live.trajectory = live.result.trajectory if isinstance(recorded, str) else recorded
        if error is not None:
            raise error

    def recorded(self, item: object, live: object) -> Trajectory | None:
        """What the worker had in memory; nothing of a worker that was lost."""
        assert isinstance(live, RemoteLive)
        return live.trajectory

    # --- how ----------------------------------------------------------------------------------

    @property
    def _there(self) -> Workers:
        if self._workers is None:
            raise UsageError("`RayStages` has no workers yet: `async with` starts them.")
        return self._workers

    async def _prepared(self, data: bytes) -> RemoteLive:
        seat = await self._there.place()
        live = RemoteLive(seat, next(self._keys))
        answer = asyncio.ensure_future(seat.ask("prepare", live.key, data))
        try:
            await asyncio.shield(answer)
        except asyncio.CancelledError:
            await self._in_any_case(self._withdraw(live, answer, prepared=True))
            raise
        except BaseException:
            seat.free()
            raise
        return live

    async def _asked(self, live: RemoteLive, stage: str) -> Any:
        """What the stage returned there. Cancelled, it ends when the stage has ended there."""
        answer = asyncio.ensure_future(live.seat.ask(stage, live.key))
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            await self._in_any_case(self._withdraw(live, answer))
            raise

    async def _withdraw(
        self, live: RemoteLive, answer: asyncio.Future[Any], *, prepared: bool = False
    ) -> None:
        """Cancel the stage in its worker, and see it end; what `prepared` all the same is closed.

        What the stage raises or returns now is dropped: whoever asked was cancelled.
        """
        if not answer.done():
            await asyncio.gather(live.seat.ask("cancel", live.key), return_exceptions=True)
        await asyncio.wait({answer})
        failed = answer.cancelled() or answer.exception() is not None
        if not prepared:
            return
        if failed:
            live.seat.free()
        else:
            await self.close(None, live)  # type: ignore[arg-type]  # it has its item there

    async def _in_any_case(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it to its end, whether or not this is cancelled once more."""
        task = asyncio.create_task(work)
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)
        await asyncio.shield(task)

    async def _aclose(self) -> None:
        try:
            if self._cleaning:  # of what was given up, and ends late
                await asyncio.wait(self._cleaning, timeout=CLEANING_SECONDS)
            if self._workers is not None:
                await self._workers.stop()
            # With the workers gone, nothing is left that these could wait for.
            await asyncio.gather(*self._cleaning, return_exceptions=True)
        finally:
            self._workers = None
            if self._connected:
                self._connected = False
                await disconnect()
