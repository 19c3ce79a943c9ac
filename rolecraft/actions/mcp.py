"""MCP servers as tools, through the official client (extra `mcp`).

    async with mcp_tools([sys.executable, "server.py"]) as tools:
        clerk = Clerk(tools=tools)

A server is a command, which is started and spoken to over its standard input and output, or the
address of one that speaks streamable HTTP. Its tools are as any others: recorded, bounded by a
time limit, their errors told to the model. A server that ends in the middle is such an error.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rolecraft._log import log
from rolecraft.actions.action import Repeat, running
from rolecraft.actions.tool import ToolAction, as_text
from rolecraft.errors import MissingExtra, ToolError, ToolServerError, UnknownName, UsageError

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import Transport
    from mcp.types import CallToolResult
    from mcp.types import Tool as ServerTool

KEY_IN_META = "rolecraft/idempotency-key"
"""Where a call carries its idempotency key, in `_meta`; a server may look there."""

_PAGES = 100
"""Pages of a listing that are read at most; a server's listing might never end."""


class McpTool(ToolAction):
    """A tool of an MCP server. `mcp_tools` makes these."""

    server: _Server

    def __init__(self, server: _Server, listed: ServerTool, **fields: Any) -> None:
        # Servers may use dots and slashes in names; chat APIs do not take them.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", listed.name)[:64]
        super().__init__(name=name, server=server, **fields)
        self.desc = self.desc or listed.description or listed.title or ""
        self._listed = listed

    @property
    def _parameters(self) -> dict[str, Any]:
        return self._listed.input_schema

    async def run(self, /, **arguments: Any) -> Any:
        """Have the server run it. Returns the text of its answer, or its JSON if it has no text.

        Raises `ToolError` for what the server calls an error, `ToolServerError` if it gives no
        answer, `UsageError` after the `async with` of `mcp_tools` has ended.
        """
        return await self.server.call(self._listed.name, arguments)


@asynccontextmanager
async def mcp_tools(
    server: str | Sequence[str | Path],
    *,
    only: Collection[str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = 60.0,  # noqa: ASYNC109 (of every call, not of this one)
    parallel: bool = False,
    approval: bool = False,
    repeat: Repeat = "never",
) -> AsyncIterator[list[McpTool]]:
    """The tools of an MCP server, while the `async with` lasts.

    `server` is a command (a list: program and arguments) or the URL of a streamable HTTP server.
    `only` keeps the tools of these names. A command gets `env` besides the few variables that
    every program needs, never the whole environment, and starts in `cwd`; `headers` go with every
    request to a URL. `timeout` seconds bound the start and each call. A call that a killed process
    left under way is not made again (`repeat="never"`), because a server need not know our
    idempotency key (in the call's `_meta` under "rolecraft/idempotency-key").

    Raises `MissingExtra` without the package `mcp`, `ToolServerError` if the server cannot be
    reached, `UnknownName` for a name in `only` that it does not have.
    """
    # Importing the client takes a second.
    await asyncio.to_thread(_import)
    # To append, because the server and we share the place in the file.
    with tempfile.TemporaryFile("a+", errors="replace") as errors:
        connection = _Server(server, errors)
        listed = await connection.open(seconds=timeout, env=env, cwd=cwd, headers=headers)
        try:
            names = [tool.name for tool in listed]
            for name in only or ():
                if name not in names:
                    raise UnknownName(f"Tool of the server `{connection.name}`", name, names)
            yield [
                McpTool(
                    connection,
                    tool,
                    timeout=timeout,
                    parallel=parallel,
                    approval=approval,
                    repeat=repeat,
                )
                for tool in listed
                if only is None or tool.name in only
            ]
        finally:
            await connection.close()


def _import() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingExtra("mcp", "mcp", "Using tools of MCP servers") from error


class _Server:
    """One connection: its calls, and its faults in our terms.

    It lives in a task of its own. The client's libraries cancel the task that opened it when it
    breaks, and wrap what is raised meanwhile in a group; neither may happen to a role.
    """

    def __init__(self, server: str | Sequence[str | Path], errors: TextIO) -> None:
        if isinstance(server, str) and not server.startswith(("http://", "https://")):
            raise UsageError(
                f"`mcp_tools` wants a URL or a command as a list, got {server!r}: "
                f"write `mcp_tools({shlex.split(server)!r})`."
            )
        self._server = server
        self._errors = errors
        """What a started server writes to its standard error: the reason, if it fails."""
        # Not the whole command or address, which may hold a key: models read the name.
        is_url = isinstance(server, str)
        self.name = re.sub(r"[^/@]*@|\?.*", "", str(server)) if is_url else Path(server[0]).name
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, *, seconds: float | None, **how: Any) -> list[ServerTool]:
        """Connect; what the server lists. Raises `ToolServerError`."""
        listed: asyncio.Future[list[ServerTool]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(listed, **how))
        try:
            async with asyncio.timeout(seconds):
                return await listed
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise self._useless(f"did not answer within {seconds:g} s") from error
            raise

    async def close(self) -> None:
        """End the connection, and the server if it was started for it. Its tools are of no use."""
        assert self._task is not None
        if self._client is None:
            self._task.cancel()
        self._client = None
        self._closing.set()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            # Whoever called a tool since has heard of it.
            log.warning(f"The connection to the tool server `{self.name}` broke: {_cause(error)}")

    async def _hold(self, listed: asyncio.Future[list[ServerTool]], **how: Any) -> None:
        from mcp import Client

        async with AsyncExitStack() as stack:
            try:
                transport = await self._transport(stack, **how)
                client = await stack.enter_async_context(Client(transport))
                tools = await _listed_by(client)
            except Exception as error:
                listed.set_exception(self._useless(f"cannot be used: {_cause(error)}"))
                return
            if client.server_info is not None:
                self.name = client.server_info.name
            self._client = client
            listed.set_result(tools)
            await self._closing.wait()

    async def _transport(
        self,
        stack: AsyncExitStack,
        *,
        env: Mapping[str, str] | None,
        cwd: str | Path | None,
        headers: Mapping[str, str] | None,
    ) -> Transport:
        if isinstance(self._server, str):
            from mcp.client.streamable_http import streamable_http_client
            from mcp.shared._httpx_utils import create_mcp_http_client

            client = create_mcp_http_client(headers=dict(headers or {}))
            await stack.enter_async_context(client)
            return streamable_http_client(self._server, http_client=client)
        from mcp.client.stdio import StdioServerParameters, stdio_client

        program, *arguments = map(str, self._server)
        started = StdioServerParameters(
            command=program, args=arguments, env=dict(env or {}), cwd=cwd
        )
        return stdio_client(started, self._errors)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        if self._client is None:
            raise UsageError(
                f"Tool {name!r} of the server `{self.name}` was called after its "
                f"`async with mcp_tools(...)` ended: run the role inside of it."
            )
        now = running.get()
        meta: Any = {KEY_IN_META: now.owner._key_of(now.path)} if now is not None else None
        try:
            result = await self._client.call_tool(name, arguments, meta=meta)
        except Exception as error:
            reason = f"gave no answer to {name!r}: {_cause(error)}"
            raise ToolServerError(self.name, reason) from error
        if result.is_error:
            raise ToolError(as_text(_content(result)))
        return _content(result)

    def _useless(self, reason: str) -> ToolServerError:
        """The fault of a server that cannot be used, with the end of its standard error."""
        self._errors.seek(0)
        said = self._errors.read().strip()[-1000:]
        return ToolServerError(self.name, f"{reason}. It wrote: {said}" if said else reason)


async def _listed_by(client: Client) -> list[ServerTool]:
    page = await client.list_tools()
    listed = [*page.tools]
    for _ in range(_PAGES):
        if page.next_cursor is None:
            break
        page = await client.list_tools(cursor=page.next_cursor)
        listed += page.tools
    return listed


def _cause(error: BaseException) -> str:
    """What lies under a group of errors of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _content(result: CallToolResult) -> Any:
    """What a model can read of a result: its text; without any, its JSON."""
    if not result.content and result.structured_content is not None:
        return result.structured_content
    return "\n".join(_text(block) for block in result.content)


def _text(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "resource":
            text = getattr(block.resource, "text", None)
            return text if text is not None else f"[{block.resource.uri}: not text]"
        case "resource_link":
            return f"[{block.uri}]"
        case kind:
            return f"[{kind} of type {block.mime_type}, {len(block.data) * 3 // 4} bytes]"
