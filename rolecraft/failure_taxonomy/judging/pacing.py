"""How fast a judge's model is asked: slower when its server says "too much", then faster again.

Invariant: at most `limit` calls are under way, and none begins before the server's `Retry-After`
has passed. `limit` is halved when the server is overloaded, once for all the calls that met the
same overload, and grows by one for each round of calls that went well (additive increase,
multiplicative decrease), up to what the user allows. Whoever waits is woken; nobody looks again
and again.

Repeating a refused attempt is the model's own business (`rolecraft.models.retries`); the call
keeps its place here meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rolecraft.errors import UsageError

OVERLOADED = frozenset({429, 503, 529})
"""HTTP statuses with which servers say that they have too much to do."""


class Pace:
    """The pace of one judge, over all traces. One event loop at a time.

    `most` is the number of calls under way at which it starts and which it never exceeds.
    """

    def __init__(self, most: int = 8, *, clock: Callable[[], float] = time.monotonic) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise UsageError(f"`concurrency` wants a whole number from 1, got {most!r}.")
        self.most = most
        self.limit = float(most)
        """How many calls may be under way; a fraction counts from the next whole number."""
        self.slowest = most
        """The least that the limit has been, in whole calls."""
        self.under_way = 0
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._pause_ends = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._begun = 0
        """How many calls have begun; the number of the latest."""
        self._cut_at = 0
        """The latest call that had begun when the limit was halved last."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[int]:
        """A call's place, once there is one; what it yields is for `overloaded`."""
        await self._wait()
        self.under_way += 1
        self._begun += 1
        try:
            yield self._begun
        finally:
            self.under_way -= 1
            self._wake()

    def went_well(self) -> None:
        """A call was answered."""
        self.limit = min(self.limit + 1 / self.limit, float(self.most))
        self._wake()

    def overloaded(self, call: int, retry_after: float | None = None) -> None:
        """The server refused the call that `turn` numbered, for now.

        Nothing new begins for `retry_after` seconds. Calls that were under way together are one
        overload, however many of them are refused.
        """
        if retry_after:
            self._pause_ends = max(self._pause_ends, self._clock() + retry_after)
        if call > self._cut_at:
            self._cut_at = self._begun
            self.limit = max(self.limit / 2, 1.0)
            self.slowest = min(self.slowest, int(self.limit))

    async def _wait(self) -> None:
        if not self._waiting and self._free():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        try:
            await turn
            while not self._free():
                self._waiting[0] = turn = asyncio.get_running_loop().create_future()
                self._wake()
                await turn
        finally:
            self._waiting.remove(turn)
            # The caller takes its place before the next one looks: nothing awaits in between.
            asyncio.get_running_loop().call_soon(self._wake)

    def _free(self) -> bool:
        return self.under_way < int(self.limit) and self._clock() >= self._pause_ends

    def _wake(self) -> None:
        """Let the first in the queue look, now or when the pause ends."""
        if not self._waiting or self.under_way >= int(self.limit):
            return
        left = self._pause_ends - self._clock()
        if left <= 0:
            if not self._waiting[0].done():
                self._waiting[0].set_result(None)
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(left, self._pause_over)

    def _pause_over(self) -> None:
        self._timer = None
        self._wake()
