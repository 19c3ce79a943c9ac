"""`ToolContext` for functions in other threads: every call is made by the sandbox's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar

from rolecraft.actions.codeact import SearchHits
from rolecraft.environments.tool_context import FileContent, ToolContext, ToolOutcome
from rolecraft.errors import UsageError
from rolecraft.sandboxes.base import Execution

T = TypeVar("T")


class Door:
    """The way from another thread to a context, until it is closed."""

    def __init__(self, context: ToolContext, loop: asyncio.AbstractEventLoop) -> None:
        self.context, self._loop = context, loop
        self._lock = Lock()
        self._under_way: set[Future[Any]] | None = set()

    def through(self, call: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Have the loop make a call. Raises `UsageError` once the door is closed."""
        with self._lock:
            if self._under_way is None:
                raise UsageError(
                    "This check was given up (its time was over, or the run was): the sandbox is "
                    "no longer there for it."
                )
            future = asyncio.run_coroutine_threadsafe(call(), self._loop)
            self._under_way.add(future)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: Future[Any]) -> None:
        with self._lock:
            if self._under_way is not None:
                self._under_way.discard(future)

    async def close(self) -> None:
        """Let nothing more through, and cancel what is under way."""
        with self._lock:
            left, self._under_way = self._under_way or set(), None
        for future in left:
            future.cancel()
        for future in left:
            with suppress(BaseException):  # that of the call, whose caller gets it
                await asyncio.wrap_future(future)


def _forwarded(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def method(self: ThreadedToolContext, *args: Any, **kwargs: Any) -> Any:
        call = getattr(self._door.context, name)
        return await asyncio.wrap_future(self._door.through(lambda: call(*args, **kwargs)))

    method.__name__ = name
    return method


class ThreadedToolContext(ToolContext):
    """A `ToolContext` for an async function that has an event loop of its own."""

    def __init__(self, door: Door) -> None:
        self._door = door


for _name in (
    *("terminal", "read_file", "write_file", "search", "call", "compute"),
    *("upload_file", "upload_dir", "download_file", "download_dir"),
    *("web_search", "web_extract", "browser_text"),
):
    setattr(ThreadedToolContext, _name, _forwarded(_name))


class BlockingToolContext:
    """What a `ToolContext` can do with the sandbox, for functions that are not async.

    The methods are those of `ToolContext`, with the same arguments, results and errors; they wait.
    """

    def __init__(self, door: Door) -> None:
        self._door = door

    def terminal(
        self,
        command: str | Sequence[str],
        *,
        seconds: float | None = None,
        output_bytes: int | None = None,
        cwd: str = "",
        env: Mapping[str, str] = {},
    ) -> Execution:
        """Run a program with its arguments, or a text as a line of bash."""
        context = self._door.context
        return self._waited(
            lambda: context.terminal(
                command, seconds=seconds, output_bytes=output_bytes, cwd=cwd, env=env
            )
        )

    def read_file(self, path: str, *, max_bytes: int = 16 * 2**20) -> FileContent:
        """A file. Raises `SandboxFileError` if it is none, or larger than `max_bytes`."""
        return self._waited(lambda: self._door.context.read_file(path, max_bytes=max_bytes))

    def write_file(
        self, path: str, content: str | bytes, *, executable: bool = False
    ) -> FileContent:
        """Write a file, its folders too. Raises `SandboxFileError` if that cannot be."""
        context = self._door.context
        return self._waited(lambda: context.write_file(path, content, executable=executable))

    def search(
        self,
        pattern: str,
        *,
        path: str = ".",
        glob: str = "",
        ignore_case: bool = False,
        limit: int = 100,
    ) -> SearchHits:
        """Lines of files that match: see `ToolContext.search`."""
        context = self._door.context
        return self._waited(
            lambda: context.search(
                pattern, path=path, glob=glob, ignore_case=ignore_case, limit=limit
            )
        )

    def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        """Call a tool by name, once: see `ToolContext.call`."""
        return self._waited(lambda: self._door.context.call(name, **arguments))

    def _waited(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._door.through(call).result()
