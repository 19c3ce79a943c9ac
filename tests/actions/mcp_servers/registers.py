"""An MCP server with tools of every fate, for `test_mcp.py`: `registers.py [stdio|http]`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Any

import mcp.types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server: MCPServer[None] = MCPServer("registers", log_level="ERROR")


@server.tool()
def read_register(name: str) -> int:
    """Read one register."""
    return {"a": 1, "b": 2}[name]


@server.tool(name="files/list.all")
def list_files() -> dict[str, list[str]]:
    """A name that chat APIs do not take."""
    return {"files": ["a.py"]}


@server.tool()
def key(context: Context[Any]) -> str:
    """The idempotency key that came along."""
    meta = context.request_context.meta or {}
    return str(dict(meta).get("rolecraft/idempotency-key"))


@server.tool()
def variable(name: str) -> str:
    """An environment variable of the server."""
    return os.environ.get(name, "(not set)")


@server.tool()
def picture() -> mcp.types.CallToolResult:
    """Words, a picture, a link, and a file."""
    text = mcp.types.TextResourceContents(uri="file:///a.txt", text="inside")
    return mcp.types.CallToolResult(
        content=[
            mcp.types.TextContent(type="text", text="seen"),
            mcp.types.ImageContent(type="image", data="MTIzNDU2", mime_type="image/png"),
            mcp.types.ResourceLink(type="resource_link", name="log", uri="file:///log"),
            mcp.types.EmbeddedResource(type="resource", resource=text),
        ]
    )


@server.tool()
async def hang() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return "never"


@server.tool()
def die() -> str:
    """Takes the server down."""
    os._exit(3)


if sys.argv[1:] == ["http"]:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
else:
    server.run("stdio")
