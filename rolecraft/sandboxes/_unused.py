"""A sandbox that nobody uses for its `ttl_seconds` is closed.

    class MySandbox(LastingSandbox):
        @in_use
        async def run(...): ...

A call that goes on is use, however long it takes, and so is a line of a shell. What runs in the
background of a shell, when no line does, is not.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Closing(Protocol):
    """What is closed when it is not used."""

    unused: Unused

    @property
    def lines_end(self) -> float | None:
        """When the last line of a shell ended, by the loop's clock; None while one runs."""
        ...

    async def close(self) -> None:
        """See `LiveSandbox.close`."""
        ...


Owner = TypeVar("Owner", bound=Closing)


class Unused:
    """Counts the calls of one sandbox, and closes it, also one that everybody has forgotten."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._busy = 0
        self._since = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self.closed_after: float | None = None
        """The seconds after which it was closed, if it was."""

    def close_after(self, owner: Closing, seconds: float | None) -> None:
        """From now on, close `owner` when it was not used for `seconds`; None: never.

        Until it is closed, the event loop has a reference to it.
        """
        if seconds is not None:
            self._since = self._loop.time()
            self._look_in(seconds, owner, seconds)

    def stop(self) -> None:
        """It is closed: look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, delay: float, owner: Closing, seconds: float) -> None:
        self._timer = self._loop.call_later(delay, self._look, owner, seconds)

    def _look(self, owner: Closing, seconds: float) -> None:
        lines_end = owner.lines_end
        left = seconds
        if not self._busy and lines_end is not None:
            left -= self._loop.time() - max(self._since, lines_end)
        if left > 0:
            self._look_in(left, owner, seconds)
            return
        self.closed_after = seconds
        self.closing = self._loop.create_task(owner.close())

    def begin(self) -> None:
        self._busy += 1

    def end(self) -> None:
        self._busy -= 1
        self._since = self._loop.time()


def in_use(
    method: Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Result]]:
    """A method that counts as use of its sandbox as long as it is awaited."""

    async def counted(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        self.unused.begin()
        try:
            return await method(self, *args, **kwargs)
        finally:
            self.unused.end()

    functools.update_wrapper(counted, method)
    return counted
