"""Calls that arrive together are answered together, and later ones join them.

Invariant: every submitted row gets exactly one result or exception, and the event loop never waits
for the model: all forward passes run in one worker thread.

Writing starts when asking has come to rest: when the loop has gone round a few times and nobody
has added a request. So a thousand episodes that all ask in the same round share one batch, and a
single caller waits for microseconds. Rows that come while others are written are read in a pass of
their own and then join, so nobody waits for somebody else's long answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from rolecraft.errors import ModelError, UsageError
from rolecraft.models._decoding import Flight, Row

Out = TypeVar("Out")

# Turns of the event loop without a new request after which a batch starts. Between an answer and
# the same role's next question lie several turns (futures, tasks, the environment's commit), and
# they differ by a few between episodes. One idle turn costs about 10 microseconds.
QUIET_TURNS = 10


@dataclass(slots=True, eq=False)
class _Asked:
    row: Row
    future: asyncio.Future[tuple[Row, int]]
    loop: asyncio.AbstractEventLoop


@dataclass(slots=True, eq=False)
class _Job:
    """A function to run in the worker thread: with nothing under way, or between two tokens."""

    function: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Batcher:
    """Collects the rows of one event loop and writes them together.

    `fly` makes a flight of rows, `version` says the policy version that writes them. At most
    `max_batch` rows are written at once, in order of arrival.
    """

    def __init__(
        self,
        fly: Callable[[Sequence[Row]], Flight],
        *,
        version: Callable[[], int],
        max_batch: int,
        name: str,
    ) -> None:
        self._fly, self._version = fly, version
        self._max_batch = max_batch
        self._name = name
        self._worker: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[_Asked] = []
        self._watching = False
        # What the worker thread shares with the loop, under the lock.
        self._lock = Lock()
        self._inbox: deque[_Asked | _Job] = deque()
        self._between: deque[_Job] = deque()
        self._running = False

    async def submit(self, row: Row) -> tuple[Row, int]:
        """Wait until `row` is finished: the row, and the version that wrote it.

        Raises `ModelError` if that failed. Cancelling the call takes the row out of the batch.
        """
        loop = self._bind()
        asked = _Asked(row, loop.create_future(), loop)
        self._waiting.append(asked)
        self._watch()
        try:
            return await asked.future
        except asyncio.CancelledError:
            row.cancelled = True
            raise

    async def call(self, function: Callable[[], Out], *, at_once: bool = False) -> Out:
        """Run `function` in the worker thread and return what it returns.

        It runs when all rows that came before it are finished, and before all that come later; or
        `at_once`, between two tokens of whatever is under way.
        """
        loop = self._bind()
        job = _Job(function, loop.create_future(), loop)
        if not at_once:
            self._hand_over()
        self._put([job], self._between if at_once else self._inbox)
        out: Out = await job.future
        return out

    def close(self) -> None:
        """End the worker thread once its batch is done. It starts again on demand."""
        if self._worker is not None:
            self._worker.shutdown(wait=False)
            self._worker = None

    # --- in the event loop -------------------------------------------------------------------

    def _bind(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_running():
                raise UsageError(
                    f"`{self._name}` is in use in another event loop. "
                    f"Use one loop, or give each loop a model of its own."
                )
            # What an ended loop left behind has nobody waiting for it.
            self._loop, self._waiting, self._watching = loop, [], False
        return loop

    def _watch(self) -> None:
        """Hand the rows over as soon as asking has come to rest."""
        if not self._watching and self._waiting:
            self._watching = True
            assert self._loop is not None
            self._loop.call_soon(self._tick, len(self._waiting), QUIET_TURNS)

    def _tick(self, seen: int, quiet: int) -> None:
        assert self._loop is not None
        count = len(self._waiting)
        if 0 < count < self._max_batch and quiet:
            left = quiet - 1 if count == seen else QUIET_TURNS
            self._loop.call_soon(self._tick, count, left)
            return
        self._watching = False
        self._hand_over()

    def _hand_over(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._put(waiting, self._inbox)

    def _put(self, things: Sequence[_Asked | _Job], queue: deque[Any]) -> None:
        with self._lock:
            queue.extend(things)
            start, self._running = not self._running, True
        if start:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix=self._name)
            self._worker.submit(self._work)

    # --- in the worker thread ----------------------------------------------------------------

    def _work(self) -> None:
        """Write until there is nothing left to write."""
        asked: dict[int, tuple[_Asked, int]] = {}
        try:
            self._write(asked)
        except BaseException as error:  # a defect here must not leave anybody waiting for ever
            with self._lock:
                left = [*self._between, *self._inbox]
                self._between.clear()
                self._inbox.clear()
                self._running = False
            for one in (*(one for one, _ in asked.values()), *left):
                _tell(one.loop, one.future, error=self._failure(error, len(asked)))
            raise

    def _write(self, asked: dict[int, tuple[_Asked, int]]) -> None:
        flights: list[Flight] = []
        while True:
            self._run_jobs(idle=not flights)
            new = self._take(len(asked))
            if new:
                version = self._version()
                asked.update({id(one.row): (one, version) for one in new})
                flights += self._start([one.row for one in new], asked)
            for flight in list(flights):
                self._step(flight, asked)
            flights = _joined(flights)
            if not flights:
                with self._lock:
                    if not (self._inbox or self._between):
                        self._running = False
                        return

    def _run_jobs(self, *, idle: bool) -> None:
        while (job := self._job(idle=idle)) is not None:
            try:
                result = job.function()
            except BaseException as error:
                _tell(job.loop, job.future, error=error)
            else:
                _tell(job.loop, job.future, result)

    def _job(self, *, idle: bool) -> _Job | None:
        with self._lock:
            if self._between:
                return self._between.popleft()
            if idle and self._inbox and isinstance(self._inbox[0], _Job):
                job = self._inbox.popleft()
                assert isinstance(job, _Job)
                return job
        return None

    def _take(self, under_way: int) -> list[_Asked]:
        """Rows that may start now: none that came after a job that waits."""
        taken: list[_Asked] = []
        with self._lock:
            while self._inbox and under_way + len(taken) < self._max_batch:
                first = self._inbox[0]
                if isinstance(first, _Job):
                    break
                self._inbox.popleft()
                if not first.row.cancelled:
                    taken.append(first)
        return taken

    def _start(self, rows: list[Row], asked: dict[int, tuple[_Asked, int]]) -> list[Flight]:
        try:
            return [self._fly(rows)]
        except Exception as error:
            self._fail(rows, error, asked)
            return []

    def _step(self, flight: Flight, asked: dict[int, tuple[_Asked, int]]) -> None:
        rows = list(flight.rows)
        try:
            over = flight.step()
        except BaseException as error:
            flight.rows = []
            self._fail(rows, error, asked)
            return
        # All at once: told one by one, the first would ask again before the last has heard, so that
        # which rows share a batch, and with it the last bits of what they get, would be chance.
        gives: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
        for row in over:
            one, version = asked.pop(id(row))
            told = gives.setdefault(one.loop, [])
            if row.error is not None:
                told.append(_giving(one.future, error=self._failure(row.error, 1)))
            elif row.cancelled:
                told.append(_giving(one.future, error=asyncio.CancelledError()))
            else:
                told.append(_giving(one.future, (row, version)))
        for loop, its_gives in gives.items():
            _hand(loop, its_gives)

    def _fail(
        self, rows: list[Row], error: BaseException, asked: dict[int, tuple[_Asked, int]]
    ) -> None:
        for row in rows:
            one, _ = asked.pop(id(row))
            _tell(one.loop, one.future, error=self._failure(error, len(rows)))

    def _failure(self, error: BaseException, size: int) -> ModelError:
        # One exception for each caller: callers add notes and tracebacks to theirs.
        failure = ModelError(
            f"`{self._name}` failed on a batch of {size}: {type(error).__name__}: {error}"
        )
        failure.__cause__ = error
        return failure


def _joined(flights: list[Flight]) -> list[Flight]:
    """The flights that still have rows, as few as can be."""
    left = [flight for flight in flights if flight.rows]
    kept: list[Flight] = []
    for flight in left:
        if not any(other.join(flight) for other in kept):
            kept.append(flight)
    return kept


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    result: Any = None,
    *,
    error: BaseException | None = None,
) -> None:
    """Give a future of another thread its result, if it still waits for one."""
    _hand(loop, [_giving(future, result, error=error)])


def _giving(
    future: asyncio.Future[Any], result: Any = None, *, error: BaseException | None = None
) -> Callable[[], None]:
    def give() -> None:
        if future.done():  # its caller may have been cancelled meanwhile
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, asyncio.CancelledError):
            future.cancel()
        else:
            future.set_exception(error)

    return give


def _hand(loop: asyncio.AbstractEventLoop, gives: Sequence[Callable[[], None]]) -> None:
    """Call all of them in one turn of the loop."""

    def all_of_them() -> None:
        for give in gives:
            give()

    try:
        loop.call_soon_threadsafe(all_of_them)
    except RuntimeError:  # the loop has ended, and with it whoever waited
        return
