"""A wrong address and a closed `Remote` are told at once, with what to write instead."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import Remote, SandboxLost

LONG = 20.0
"""Seconds to try again: whoever does so asks more than once."""


@contextlib.asynccontextmanager
async def answering(
    says: bytes, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, Any]]:
    """A server that gives everybody the same answer; its port, and how many it has had."""
    asked = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked[0] += 1
        writer.write(says)
        with contextlib.suppress(OSError):
            await writer.drain()
            await reader.read(65536)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


@pytest.mark.parametrize(
    ("says", "scheme", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", "https", "write http://"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "https", "does not speak https"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "http", "does not speak http "),
        (b"\x15\x03\x03\x00\x02\x02\x16", "http", "not one for https"),
    ],
)
async def test_what_speaks_something_else_is_asked_once(
    says: bytes, scheme: str, told: str
) -> None:
    async with answering(says) as (port, asked):
        remote = Remote(f"{scheme}://127.0.0.1:{port}", reconnect_seconds=LONG)
        with pytest.raises(SandboxError, match=told) as raised:
            await remote.create()
        assert not isinstance(raised.value, SandboxLost), "nothing was lost"
        assert asked == [1]
        with pytest.raises(SandboxError, match=told):
            await asyncio.to_thread(lambda: remote.walls)
        await remote.aclose()


async def test_a_certificate_of_ones_own_says_how_it_is_trusted(
    tmp_path: Path, needs_program: Any
) -> None:
    needs_program("openssl", package="openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "own.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=own"]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    async with answering(b"", tls) as (port, _):
        remote = Remote(f"https://127.0.0.1:{port}", reconnect_seconds=LONG)
        with pytest.raises(SandboxError, match=r"not trusted here .*cafile="):
            await remote.create()
        await remote.aclose()


async def test_what_is_only_not_there_yet_is_waited_for() -> None:
    async with answering(b"") as (port, asked):
        pass
    remote = Remote(f"http://127.0.0.1:{port}", reconnect_seconds=0.3)
    with pytest.raises(SandboxLost, match="cannot be reached"):
        await remote.create()
    assert asked == [0]


async def test_a_closed_remote_makes_nothing_more_and_says_so(
    sandbox_servers: Callable[[str], Any],
) -> None:
    server = sandbox_servers("local")
    async with Remote(server.url, token=server.token) as remote:
        sandbox = await remote.create()
        snapshot = await sandbox.snapshot()
    for what in (remote.create(), remote.run(["true"]), sandbox.run(["true"]), sandbox.fork()):
        with pytest.raises(SandboxLost, match=r"was closed, and its sandboxes.*make a new one"):
            await what
    await sandbox.close()  # it went with the client
    await snapshot.close()
    await remote.aclose()


async def test_closing_leaves_nothing_of_what_was_being_made(
    sandbox_servers: Callable[[str], Any],
) -> None:
    """A request that is under way ends with an error; it does not open the client again."""
    server = sandbox_servers("local")
    remote = Remote(server.url, token=server.token)
    await remote.create()
    making = [asyncio.create_task(remote.create()) for _ in range(4)]
    await asyncio.sleep(0)
    await remote.aclose()
    ended = await asyncio.gather(*making, return_exceptions=True)
    for each in ended:
        assert not isinstance(each, BaseException) or isinstance(each, SandboxError), each
    with pytest.raises(SandboxLost, match="was closed"):
        await remote.create()
