"""What commands print can be heard while they run, here and over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from rolecraft.sandboxes import (
    Bubblewrap,
    LocalProcess,
    Remote,
    SandboxLimits,
    SandboxProvider,
    listening,
)


@pytest.fixture(params=["local", "bubblewrap", "remote"])
async def provider(
    request: pytest.FixtureRequest,
    sandbox_servers: Callable[[str], Any],
    needs_program: Any,
) -> AsyncIterator[SandboxProvider]:
    if request.param == "remote":
        server = sandbox_servers("local")
        async with Remote(server.url, token=server.token) as remote:
            yield remote
    elif request.param == "bubblewrap":
        needs_program("bwrap", package="bubblewrap")
        yield Bubblewrap()
    else:
        yield LocalProcess()


WAITS = "echo first; until [ -e go ]; do sleep 0.01; done; echo second >&2"


async def test_a_piece_is_heard_before_the_command_ends(provider: SandboxProvider) -> None:
    heard = bytearray()
    async with await provider.create() as sandbox:
        shell = await sandbox.shell()
        for run in (lambda: sandbox.run(["sh", "-c", WAITS]), lambda: shell.run(WAITS)):
            with listening(heard.extend):
                running = asyncio.create_task(run())  # type: ignore[no-untyped-call]
                await until(lambda: b"first\n" in heard)
                assert not running.done()
                await sandbox.write("go", "")
                done = await running
            assert done.ok
            assert bytes(heard) == b"first\nsecond\n"
            heard.clear()
            await sandbox.run(["sh", "-c", "rm go; echo nobody listens any more"])
            assert not heard


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_of_a_server_no_more_is_heard_than_a_result_keeps(
    sandbox_servers: Callable[[str], Any],
) -> None:
    server, heard = sandbox_servers("local"), bytearray()
    async with Remote(server.url, token=server.token) as remote, await remote.create() as sandbox:
        with listening(heard.extend):
            await sandbox.run(["seq", "100000"], limits=SandboxLimits(output_bytes=1000))
    assert len(heard) == 1000
    assert heard.startswith(b"1\n2\n3\n")


async def test_pieces_that_a_client_has_are_not_sent_again(
    sandbox_servers: Callable[[str], Any],
) -> None:
    """It lost the connection, and comes again with how many it has heard."""
    server = sandbox_servers("local")
    headers = {
        "authorization": f"Bearer {server.token}",
        "rolecraft-lease": "follower",
        "accept": "application/json, application/x-ndjson",
        "rolecraft-request": "one",
    }
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
        made = await client.post("/v1/sandboxes", json={}, headers={"rolecraft-request": "0"})
        path = f"/v1/sandboxes/{made.json()['id']}"
        body = {"command": ["sh", "-c", WAITS]}
        pieces: list[str] = []
        for heard in (0, 1):
            follow = {"rolecraft-follow": str(heard)}
            async with client.stream("POST", f"{path}/run", json=body, headers=follow) as answer:
                async for line in answer.aiter_lines():
                    pieces.append(line)
                    if heard == 0:
                        break
                    assert "Zmlyc3QK" not in line  # first
            go = {"rolecraft-request": "go"}
            if heard == 0:
                await client.put(f"{path}/file", params={"path": "go"}, headers=go)
        assert pieces[0] == '{"output":"Zmlyc3QK"}'
        assert '"output":"c2Vjb25kCg=="' in pieces[1]
        assert pieces[-1].startswith('{"status":200,"answer":{"execution":{"exit_code":0')
        await client.delete("/v1/lease")
