"""Work on many things at once, with the results in the order of the things."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_END: Any = object()


async def in_order(
    things: Iterator[T], work: Callable[[T], Awaitable[R]], *, at_once: int
) -> AsyncGenerator[R, None]:
    """What `work` makes of each thing, in order; `at_once` of them are under way.

    A slow one holds up the results behind it and not the work on them. `things` is drawn from in a
    thread, so it may read files. What `work` raises comes out in its place, and ends all others.
    """
    begun: deque[asyncio.Future[R]] = deque()
    more = True
    try:
        while True:
            open_ = [task for task in begun if not task.done()]
            while more and len(open_) < at_once:
                thing = await asyncio.to_thread(next, things, _END)
                more = thing is not _END
                if more:
                    begun.append(asyncio.ensure_future(work(thing)))
                    open_.append(begun[-1])
            if not begun:
                return
            if begun[0].done():
                yield begun.popleft().result()
            else:
                await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
