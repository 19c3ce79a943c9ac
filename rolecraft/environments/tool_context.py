"""`ToolContext`: what grading may do after the run, in the sandbox that the roles worked in.

    async def grade(self) -> list[Signal]:
        async with ToolContext(self.sandbox, workers=4) as context:
            done = await context.terminal(["python3", "-m", "pytest", "-q"])
            notes = await context.read_file("NOTES.md")
            style = await context.compute(count_long_lines, text=notes.text)
        return [Signal("tests.ok", float(done.ok)), Signal("notes.long_lines", style)]

Everything is awaited and gives a typed result. Synchronous functions and tools run in threads of
their own, at most `workers` at the same time, and never in the event loop; each is run exactly
once, whatever it raises. Settings are arguments; no environment variable is read.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from rolecraft.actions._threads import at_most, in_thread
from rolecraft.actions.codeact import SandboxTool, SearchHits, codeact_tools, search_files
from rolecraft.actions.tool import ToolAction, as_text, is_for_model
from rolecraft.environments.tool_context_web import Page, PageReader, WebHit, WebSearch
from rolecraft.errors import ActionTimeout, UnknownName, UsageError
from rolecraft.sandboxes.base import Execution, as_bytes
from rolecraft.sandboxes.live import LiveSandbox, SandboxFileError

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file of the sandbox."""

    path: str
    data: bytes

    @property
    def text(self) -> str:
        """As UTF-8; what is none is replaced."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Copied:
    """A file or folder that was copied into the sandbox or out of it."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of a call of a tool."""

    tool: str
    text: str
    """What a model would have read: the result, or what was raised."""
    value: Any = None
    """What it returned: a JSON value, or a `ToolResult` with its typed fields."""
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """It raised nothing."""
        return self.error is None


class ToolContext:
    """The sandbox of a run, for grading and reward functions.

    `tools` can be called by name; unless given, they are the CodeAct tools. `web` searches,
    `pages` fetches pages and `browser` renders them; without one, what needs it is refused. At most
    `workers` synchronous calls run at the same time. Closing it ends its shells, not the sandbox.
    """

    def __init__(
        self,
        sandbox: LiveSandbox,
        *,
        tools: Iterable[ToolAction] | None = None,
        web: WebSearch | None = None,
        pages: PageReader | None = None,
        browser: PageReader | None = None,
        workers: int = 8,
    ) -> None:
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise UsageError(f"`ToolContext(workers={workers!r})` must be a whole number from 1.")
        self.sandbox, self.workers = sandbox, workers
        self._web, self._pages, self._browser = web, pages, browser
        given = codeact_tools() if tools is None else tools
        self._tools = {tool.name: _free(tool, sandbox) for tool in given}
        self._slots = asyncio.Semaphore(workers)
        self._closed = False

    # --- the sandbox --------------------------------------------------------------------------

    async def terminal(
        self,
        command: str | Sequence[str],
        *,
        seconds: float | None = None,
        output_bytes: int | None = None,
        cwd: str = "",
        env: Mapping[str, str] = {},
    ) -> Execution:
        """Run a program with its arguments, or a text as a line of bash.

        Give what comes from outside (a path, a name) as an argument of its own, never within a
        text. Limits are the sandbox's unless given.
        """
        self._check_open()
        words = ["bash", "-c", command] if isinstance(command, str) else list(command)
        limits = self.sandbox.spec.limits
        if seconds is not None:
            cpu_seconds = max(limits.cpu_seconds, int(seconds) + 1)
            limits = replace(limits, seconds=seconds, cpu_seconds=cpu_seconds)
        if output_bytes is not None:
            limits = replace(limits, output_bytes=output_bytes)
        return await self.sandbox.run(words, limits=limits, cwd=cwd, env=env)

    async def read_file(self, path: str, *, max_bytes: int = 16 * 2**20) -> FileContent:
        """A file. Raises `SandboxFileError` if it is none, or larger than `max_bytes`."""
        self._check_open()
        return FileContent(path, await self.sandbox.read(path, max_bytes=max_bytes))

    async def write_file(
        self, path: str, content: str | bytes, *, executable: bool = False
    ) -> FileContent:
        """Write a file, its folders too. Raises `SandboxFileError` if that cannot be."""
        self._check_open()
        await self.sandbox.write(path, content, executable=executable)
        return FileContent(path, as_bytes(content))

    async def search(
        self,
        pattern: str,
        *,
        path: str = ".",
        glob: str = "",
        ignore_case: bool = False,
        limit: int = 100,
    ) -> SearchHits:
        """Lines of files that match: see `search_files`."""
        self._check_open()
        return await search_files(
            self.sandbox, pattern, path=path, glob=glob, ignore_case=ignore_case, limit=limit
        )

    async def upload_file(self, source: str | Path, path: str) -> Copied:
        """Copy a file of the host into the sandbox. Raises `UsageError` if it is none."""
        return await self._upload(source, path, folder=False)

    async def upload_dir(self, source: str | Path, path: str) -> Copied:
        """Copy a folder of the host into the sandbox. Raises `UsageError` if it is none."""
        return await self._upload(source, path, folder=True)

    async def download_file(
        self, path: str, target: str | Path, *, max_bytes: int | None = None
    ) -> Copied:
        """Copy a file out of the sandbox. Raises `SandboxFileError` if it is none, or larger than
        `max_bytes`; None: as in `LiveSandbox.download`.
        """
        return await self._download(path, target, max_bytes, "-f", "not a file")

    async def download_dir(
        self, path: str, target: str | Path, *, max_bytes: int | None = None
    ) -> Copied:
        """Copy a folder out of the sandbox. Raises `SandboxFileError` if it is none, or all its
        files are larger than `max_bytes`; None: as in `LiveSandbox.download`.
        """
        return await self._download(path, target, max_bytes, "-d", "not a folder")

    async def _upload(self, source: str | Path, path: str, *, folder: bool) -> Copied:
        self._check_open()
        kind = Path(source).is_dir if folder else Path(source).is_file
        if not await asyncio.to_thread(kind):
            what = "folder" if folder else "file"
            raise UsageError(
                f"`upload_{'dir' if folder else 'file'}`: {str(source)!r} is no {what}."
            )
        await self.sandbox.upload(source, path)
        return Copied(str(source), path)

    async def _download(
        self, path: str, target: str | Path, max_bytes: int | None, kind: str, problem: str
    ) -> Copied:
        self._check_open()
        # Absolute, because `test` takes a path such as `=` for something else.
        inside = f"{self.sandbox.folder}/{path}" if not path.startswith("/") else path
        if not (await self.sandbox.run(["test", kind, inside])).ok:
            raise SandboxFileError(path, problem)
        await self.sandbox.download(path, target, max_bytes=max_bytes)
        return Copied(path, str(target))

    # --- the web ------------------------------------------------------------------------------

    async def web_search(self, query: str, *, limit: int = 5) -> tuple[WebHit, ...]:
        """What the web knows of `query`. Raises `UsageError` without a `web`."""
        found = await self._given(self._web, "web_search", "web").search(query, limit=limit)
        return tuple(found)[:limit]

    async def web_extract(self, url: str) -> Page:
        """The text of a page as it is fetched. Raises `UsageError` without `pages`."""
        with at_most(self._slots):
            return await self._given(self._pages, "web_extract", "pages").read(url)

    async def browser_text(self, url: str) -> Page:
        """The text of a page as a browser shows it. Raises `UsageError` without a `browser`."""
        with at_most(self._slots):
            return await self._given(self._browser, "browser_text", "browser").read(url)

    # --- tools and functions ------------------------------------------------------------------

    async def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        """Call a tool by name, once.

        What a model would be told of (wrong arguments, what the tool raises, its time limit) is the
        outcome's `error`. Raises `UnknownName` for a tool that there is not, and what no model
        could mend, such as `SandboxLost`.
        """
        self._check_open()
        if name not in self._tools:
            raise UnknownName("Tool", name, self._tools)
        tool = self._tools[name]
        try:
            with at_most(self._slots):
                value = await _in_time(tool, arguments)
        except Exception as error:
            if not is_for_model(error):
                raise
            return ToolOutcome(name, str(error), error=error)
        return ToolOutcome(name, as_text(value), value)

    @overload
    async def compute(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **arguments: P.kwargs
    ) -> T: ...
    @overload
    async def compute(
        self, function: Callable[P, T], /, *args: P.args, **arguments: P.kwargs
    ) -> T: ...
    async def compute(self, function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
        """What a function returns or raises, sync or async; a sync one runs in a worker thread.

        One that is given up, by cancellation or a time limit around this, keeps its worker until it
        returns.
        """
        self._check_open()
        if inspect.iscoroutinefunction(function):
            return await function(*args, **arguments)
        with at_most(self._slots):
            result = await in_thread(partial(function, *args), **arguments)
        # An object whose `__call__` is async looks like a synchronous function until it is called.
        return await result if inspect.isawaitable(result) else result

    # --- the end ------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End the shells that its tools have opened; it cannot be used any more."""
        self._closed = True
        for tool in self._tools.values():
            if isinstance(tool, SandboxTool):
                await tool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("This `ToolContext` is closed.")

    def _given(self, provider: T | None, method: str, argument: str) -> T:
        self._check_open()
        if provider is None:
            raise UsageError(
                f"`{method}` has nobody to ask: give `ToolContext(sandbox, {argument}=...)` one."
            )
        return provider


def _free(tool: ToolAction, sandbox: LiveSandbox) -> ToolAction:
    """The tool as nobody's, in `sandbox` unless it has one of its own."""
    if isinstance(tool, SandboxTool):
        return tool.in_sandbox(sandbox)
    free = object.__new__(type(tool))
    free.__dict__.update(tool.__dict__, _owner=None)
    return free


async def _in_time(tool: ToolAction, arguments: dict[str, Any]) -> Any:
    if tool.timeout is None:
        return await tool.run(**arguments)
    try:
        async with asyncio.timeout(tool.timeout) as limit:
            return await tool.run(**arguments)
    except TimeoutError as error:
        if limit.expired():
            raise ActionTimeout("grading", tool.name, tool.timeout) from error
        raise
