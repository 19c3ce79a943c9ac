"""Calls that arrive together are answered together.

Invariant: every submitted request gets exactly one result or exception, and the event loop never
waits for the model: batches run one at a time in one worker thread.

A batch starts when asking has come to rest: when the loop has gone round a few times and nobody
has added a request. So a thousand episodes that all ask in the same round share one batch, and a
single caller waits for microseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from rolecraft.errors import ModelError, UsageError

Request = TypeVar("Request")
Result = TypeVar("Result")
Out = TypeVar("Out")

# Turns of the event loop without a new request after which a batch starts. Between an answer and
# the same role's next question lie several turns (futures, tasks, the environment's commit), and
# they differ by a few between episodes. One idle turn costs about 10 microseconds.
QUIET_TURNS = 10


class Batcher(Generic[Request, Result]):
    """Collects requests of one event loop and runs them through `run` in batches.

    `run` gets at most `max_batch` requests, in order of arrival, and returns a result for each.
    """

    def __init__(
        self, run: Callable[[Sequence[Request]], Sequence[Result]], *, max_batch: int, name: str
    ) -> None:
        self._run = run
        self._max_batch = max_batch
        self._name = name
        self._worker: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[tuple[Request, asyncio.Future[Result]]] = []
        self._watching = False
        self._running = False

    async def submit(self, request: Request) -> Result:
        """Wait for this request's result. Raises `ModelError` if `run` failed on its batch."""
        loop = self._bind()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((request, future))
        self._watch()
        return await future

    async def call(self, function: Callable[[], Out]) -> Out:
        """Run `function` in the worker thread, between batches, and return what it returns."""
        return await self._bind().run_in_executor(self._thread(), function)

    def close(self) -> None:
        """End the worker thread once its batch is done. It starts again on demand."""
        if self._worker is not None:
            self._worker.shutdown(wait=False)
            self._worker = None

    def _bind(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_running():
                raise UsageError(
                    f"`{self._name}` is in use in another event loop. "
                    f"Use one loop, or give each loop a model of its own."
                )
            # What an ended loop left behind has nobody waiting for it.
            self._loop, self._waiting, self._watching, self._running = loop, [], False, False
        return loop

    def _thread(self) -> ThreadPoolExecutor:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        return self._worker

    def _watch(self) -> None:
        """Start a batch as soon as asking has come to rest, unless one is running."""
        if not (self._watching or self._running) and self._waiting:
            self._watching = True
            assert self._loop is not None
            self._loop.call_soon(self._tick, len(self._waiting), QUIET_TURNS)

    def _tick(self, seen: int, quiet: int) -> None:
        assert self._loop is not None
        count = len(self._waiting)
        if count < self._max_batch and quiet:
            left = quiet - 1 if count == seen else QUIET_TURNS
            self._loop.call_soon(self._tick, count, left)
            return
        self._watching = False
        batch, self._waiting = self._waiting[: self._max_batch], self._waiting[self._max_batch :]
        batch = [(request, future) for request, future in batch if not future.done()]  # cancelled
        if not batch:
            self._watch()
            return
        self._running = True
        running = self._loop.run_in_executor(
            self._thread(), self._run, [request for request, _ in batch]
        )
        running.add_done_callback(lambda done: self._deliver(batch, done))

    def _deliver(
        self,
        batch: list[tuple[Request, asyncio.Future[Result]]],
        done: asyncio.Future[Sequence[Result]],
    ) -> None:
        self._running = False
        waiting = [future for _, future in batch]
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is None:
            for future, result in zip(waiting, done.result(), strict=True):
                if not future.done():  # its caller may have been cancelled meanwhile
                    future.set_result(result)
        else:
            for future in waiting:
                if not future.done():
                    future.set_exception(self._failure(error, len(batch)))
        self._watch()

    def _failure(self, error: BaseException, size: int) -> ModelError:
        # One exception for each caller: callers add notes and tracebacks to theirs.
        failure = ModelError(
            f"`{self._name}` failed on a batch of {size}: {type(error).__name__}: {error}"
        )
        failure.__cause__ = error
        return failure
