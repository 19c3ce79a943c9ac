"""The half of `RayStages` that lives in a Ray actor: environments, and what is done in them.

Invariant: each item has a task of its own here, in which its stages run one after the other, as
they do in a pipeline of one process: context variables, time limits and cancel scopes that one
stage opens may be closed by another. Nothing here blocks the actor's loop, which all items share.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import Context
from importlib.metadata import version
from typing import Any

from rolecraft.actions._threads import context_with
from rolecraft.errors import UsageError
from rolecraft.rollouts.heap import set_aside
from rolecraft.rollouts.remote._transit import answered, unpacked
from rolecraft.rollouts.stages import Records

Work = Callable[[], Awaitable[Any]]
SAME = "the result's"
"""Sent in place of a trajectory that the result of the item has already taken along."""


def are_stages(thing: object) -> bool:
    """Whether it is stages, and not a function or class that makes them."""
    return hasattr(thing, "prepare") and not isinstance(thing, type)


class Worker:
    """Holds the stages and the environments of many items, each under its key.

    Every method returns what `_transit.taken` takes, and raises nothing of its own accord.
    """

    def __init__(self) -> None:
        self._where = f"in the worker process {os.getpid()} of `{platform.node()}`"
        self._stages: Any = None
        self._context: Context | None = None
        self._left = AsyncExitStack()
        self._items: dict[int, _Item] = {}
        self._withdrawn: set[int] = set()
        """Keys that were cancelled before they came: Ray does not keep calls in order."""

    async def enter(self, payload: bytes, tool_workers: int, wanted: str) -> bytes:
        """Make the stages, and what all items share; `wanted` is Rolecraft's version."""
        return await answered(self._enter(payload, tool_workers, wanted), self._where)

    async def prepare(self, key: int, item: bytes) -> bytes:
        return await answered(self._prepare(key, item), self._where)

    async def run(self, key: int) -> bytes:
        one = self._items[key]
        return await answered(one.do(lambda: self._stages.run(one.item, one.live)), self._where)

    async def grade(self, key: int) -> bytes:
        return await answered(self._grade(self._items[key]), self._where)

    async def close(self, key: int) -> bytes:
        return await answered(self._close(key), self._where)

    async def cancel(self, key: int) -> None:
        """Cancel the stage that the item is in; it answers for itself."""
        if key in self._items:
            self._items[key].cancel()
        else:
            self._withdrawn.add(key)

    async def ping(self) -> int:
        """An answer, as a sign that the loop is free; how many items are here."""
        return len(self._items)

    async def leave(self) -> bytes:
        """Close what all items share."""
        return await answered(self._left.aclose(), self._where)

    # --- how ----------------------------------------------------------------------------------

    async def _enter(self, payload: bytes, tool_workers: int, wanted: str) -> None:
        if (here := version("rolecraft")) != wanted:
            raise UsageError(
                f"Rolecraft is {here} {self._where} and {wanted} where the rollouts were "
                f"begun. Install the same everywhere."
            )
        # In a thread: the modules that it needs may take seconds.
        made = await asyncio.to_thread(unpacked, payload, "What makes the stages")
        stages = made if are_stages(made) else made()
        self._left.enter_context(set_aside())
        if isinstance(stages, AbstractAsyncContextManager):
            await self._left.enter_async_context(stages)
        self._context = context_with(tool_workers)
        self._stages = stages

    async def _prepare(self, key: int, data: bytes) -> None:
        if key in self._withdrawn:
            self._withdrawn.discard(key)
            raise asyncio.CancelledError
        assert self._context is not None
        item = unpacked(data, "An item")
        one = self._items[key] = _Item(item, self._context.copy())
        try:
            one.live = await one.do(lambda: self._stages.prepare(item))
        except BaseException:
            del self._items[key]
            one.end()
            raise

    async def _grade(self, one: _Item) -> Any:
        one.result = await one.do(lambda: self._stages.grade(one.item, one.live))
        return one.result

    async def _close(self, key: int) -> tuple[Exception | None, Any]:
        """What closing raised, and what was recorded of the item."""
        one = self._items[key]
        error: Exception | None = None
        try:
            await one.do(lambda: self._stages.close(one.item, one.live), now=True)
        except Exception as raised:
            error = raised
        finally:
            del self._items[key]
            one.end()
        recorded = None
        if isinstance(self._stages, Records):
            recorded = self._stages.recorded(one.item, one.live)
        same = recorded is not None and recorded is getattr(one.result, "trajectory", None)
        return error, SAME if same else recorded


class _Item:
    """One item, its environment, and the task that does its stages."""

    def __init__(self, item: Any, context: Context) -> None:
        self.item, self.live, self.result = item, None, None
        self._context = context
        self._asked: asyncio.Queue[tuple[Work, asyncio.Future[Any]]] = asyncio.Queue()
        self._busy = False
        self._beside: asyncio.Task[Any] | None = None
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._work(), context=context)

    async def do(self, work: Work, *, now: bool = False) -> Any:
        """What `work` returns or raises. `now`: beside a stage that would not end, if need be."""
        loop = asyncio.get_running_loop()
        if now and self._busy:
            self._beside = loop.create_task(_awaited(work), context=self._context.copy())
            return await self._beside
        answer: asyncio.Future[Any] = loop.create_future()
        self._asked.put_nowait((work, answer))
        return await answer

    def cancel(self) -> None:
        """Cancel the stage that is under way or about to begin, if there is one."""
        while not self._asked.empty():
            self._asked.get_nowait()[1].cancel()
        if self._busy:
            self._task.cancel()
        if self._beside is not None:
            self._beside.cancel()

    def end(self) -> None:
        self._task.cancel()

    async def _work(self) -> None:
        while True:
            work, answer = await self._asked.get()
            self._busy = True
            try:
                value = await work()
            except asyncio.CancelledError:
                answer.cancel()
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()  # it was meant for this stage, and there are others to come
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(value)
            finally:
                self._busy = False


async def _awaited(work: Work) -> Any:
    return await work()
