"""A gate that many go through at once, or that one shuts to be alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Gate:
    """Who wants to be alone waits for those who are inside; others then wait for it."""

    def __init__(self) -> None:
        self._door, self._empty = asyncio.Lock(), asyncio.Event()
        self._inside = 0
        self._empty.set()

    @contextlib.asynccontextmanager
    async def inside(self) -> AsyncIterator[None]:
        """Beside any number of others."""
        async with self._door:
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """While nobody is inside."""
        async with self._door:
            await self._empty.wait()
            yield
