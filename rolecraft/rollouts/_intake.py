"""What goes into a pipeline, one item at a time, and which is next.

Invariant: nothing is read before somebody asks for it, but for as many as the order may choose
from. No item is overtaken by more than `patience` later ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, Generic, TypeVar

from rolecraft.errors import UsageError, forgotten_await
from rolecraft.rollouts.settings import PipelineSettings

Item = TypeVar("Item")


class Intake(Generic[Item]):
    """Items with their numbers, in the order in which they are to be begun.

    `predicted` says how long an item will take, in any unit, for the order `longest`. Raises
    `UsageError` where the two do not go together, and for what is no iterable.
    """

    def __init__(
        self,
        items: Iterable[Item] | AsyncIterable[Item],
        settings: PipelineSettings,
        predicted: Callable[[Item], float] | None,
    ) -> None:
        if (settings.order == "longest") != (predicted is not None):
            raise UsageError(
                "`order='longest'` and `predicted`, a function from an item to how long it will "
                "take, go together."
            )
        self._items: AsyncIterator[Item] | None = None
        self._given: Any = items
        if isinstance(items, AsyncIterable):
            self._items = aiter(items)
        elif isinstance(items, Iterable):
            self._given = iter(items)
        else:
            raise UsageError(f"`items` is {items!r}, expected an iterable.{forgotten_await(items)}")
        self._predicted, self._patience = predicted, settings.patience
        self._window: list[tuple[int, Item, float]] = []
        self._begun: list[int] = []
        """Numbers of items that were begun before one that is in the window still."""
        self._read = 0
        self._coming: asyncio.Task[Item] | None = None
        self._ended = False

    @property
    def ahead(self) -> int:
        """How many items were read and not begun."""
        return len(self._window)

    async def next(self, room: int) -> tuple[int, Item] | None:
        """The next item, chosen from at most `room`; None after the last.

        Raises what reading one raises.
        """
        if self._predicted is None:
            if self._items is None:
                for item in self._given:
                    return self._numbered(), item
                return None
            async for item in self._items:
                return self._numbered(), item
            return None
        await self._fill(max(1, room))
        return self._longest() if self._window else None

    async def aclose(self) -> None:
        """Let the source go."""
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()

    def _numbered(self) -> int:
        self._read += 1
        return self._read - 1

    async def _fill(self, room: int) -> None:
        while len(self._window) < room and not self._ended:
            if self._items is None:
                try:
                    item = next(self._given)
                except StopIteration:
                    self._ended = True
                    return
            else:
                if self._coming is None:
                    self._coming = asyncio.ensure_future(anext(self._items))
                # With something to begin already, a slow source is not waited for.
                await asyncio.wait({self._coming}, timeout=0 if self._window else None)
                if not self._coming.done():
                    return
                coming, self._coming = self._coming, None
                try:
                    item = coming.result()
                except StopAsyncIteration:
                    self._ended = True
                    return
            assert self._predicted is not None
            self._window.append((self._numbered(), item, float(self._predicted(item))))

    def _longest(self) -> tuple[int, Item]:
        oldest = self._window[0]
        overtaken = len(self._begun) >= self._patience
        number, item, _ = (
            oldest if overtaken else max(self._window, key=lambda each: (each[2], -each[0]))
        )
        self._window = [each for each in self._window if each[0] != number]
        first = self._window[0][0] if self._window else self._read
        self._begun = [each for each in (*self._begun, number) if each > first]
        return number, item
