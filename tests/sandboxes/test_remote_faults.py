"""Connections that break, clients and servers that are killed: nothing is done twice, or left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import Remote, SandboxLimits, SandboxLost, SandboxSpec
from rolecraft.sandboxes.server.bases import PREFIX


class Cutting:
    """A way to a server that is cut, again and again, before an answer comes back.

    `cuts` says of how many requests no answer is let through, of those whose path holds `on`.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.cuts, self.on, self.seen = 0, b"/run", 0
        self.port = 0
        self._open: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Cutting]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._pass_on(reader, writer)
        finally:
            self._open.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        cut = False

        async def forward() -> None:
            nonlocal cut
            while data := await reader.read(65536):
                if self.on in data.partition(b"\r\n")[0]:
                    self.seen += 1
                    cut = self.cuts > 0
                    self.cuts -= cut
                back.write(data)
                await back.drain()

        async def answer() -> None:
            while data := await there.read(65536):
                if cut:
                    return
                writer.write(data)
                await writer.drain()

        tasks = [asyncio.create_task(forward()), asyncio.create_task(answer())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for each in (writer, back):
            each.transport.abort()
            with contextlib.suppress(OSError):
                await each.wait_closed()


async def test_a_command_whose_answer_was_lost_is_asked_for_again_and_not_run_again(
    sandbox_servers: Callable[[str], Any],
) -> None:
    server = sandbox_servers("local")
    async with (
        Cutting(server.port).open() as way,
        Remote(f"http://127.0.0.1:{way.port}", token=server.token) as remote,
    ):
        sandbox = await remote.create()
        way.cuts = 3
        done = await sandbox.run(["sh", "-c", "echo once >> log; cat log"])
        assert (done.stdout, way.cuts, way.seen) == ("once\n", 0, 4)
        shell = await sandbox.shell()
        way.cuts = 2
        assert (await shell.run("echo twice >> log; cat log")).stdout == "once\ntwice\n"
        way.cuts = 2
        assert (await remote.run(["echo", "alone"])).stdout == "alone\n"
        way.on, way.cuts = b"/v1/sandboxes ", 2
        other = await remote.create()
        assert other.id != sandbox.id
        await sandbox.close()


@pytest.mark.slow
async def test_a_lost_connection_does_not_end_a_long_command(
    sandbox_servers: Callable[[str], Any],
) -> None:
    """The client comes back while it runs, and gets its answer when it is done."""
    server = sandbox_servers("local")
    async with (
        Cutting(server.port).open() as way,
        Remote(f"http://127.0.0.1:{way.port}", token=server.token) as remote,
    ):
        async with await remote.create() as sandbox:
            way.cuts = 1
            done = await sandbox.run(["sh", "-c", "echo begun >> log; sleep 6; cat log"])
        assert done.stdout == "begun\n", "one beginning"
        assert done.seconds >= 6


async def test_the_same_id_again_gets_the_same_answer_and_another_request_does_not(
    sandbox_servers: Callable[[str], Any],
) -> None:
    server = sandbox_servers("local")
    async with raw(server) as client:
        made = (await client.post("/v1/sandboxes", json={})).json()
        path = f"/v1/sandboxes/{made['id']}/run"
        body = {"command": ["sh", "-c", "echo x >> log; cat log; date +%N"]}
        same = {"rolecraft-request": "one"}
        answers = await asyncio.gather(
            *(client.post(path, json=body, headers=same) for _ in range(5))
        )
        assert len({answer.text for answer in answers}) == 1
        assert answers[0].json()["execution"]["stdout"].startswith("x\n")
        other = await client.post(path, json={"command": ["true"]}, headers=same)
        assert other.status_code == 409
        again = await client.post(path, json=body, headers={"rolecraft-request": "two"})
        assert again.json()["execution"]["stdout"].startswith("x\nx\n")
        await client.delete(f"/v1/sandboxes/{made['id']}")


async def test_what_a_client_left_is_closed_when_its_lease_ends(
    sandbox_server: Callable[..., Any],
) -> None:
    server, mark = sandbox_server("--lease-seconds", 3), uuid.uuid4().hex
    async with raw(server) as client:
        made = (await client.post("/v1/sandboxes", json={})).json()
        folder = Path(made["folder"])
        await until(folder.is_dir, "it is there")
        command = {"command": ["sh", "-c", f"sleep 1000; : {mark}"], "limits": {"seconds": 900}}
        with contextlib.suppress(httpx.ReadTimeout):
            await client.post(f"/v1/sandboxes/{made['id']}/run", json=command, timeout=0.5)
        assert processes(mark)
        await until(lambda: not folder.exists(), "the folder is gone")
        await until(lambda: not processes(mark), "its command is gone")
        answer = await client.post(f"/v1/sandboxes/{made['id']}/run", json={"command": ["true"]})
        assert answer.status_code == 410
        assert answer.json()["error"]["type"] == "SandboxLost"


@pytest.mark.slow
async def test_a_client_that_lives_keeps_its_lease_without_a_call(
    sandbox_server: Callable[..., Any],
) -> None:
    server = sandbox_server("--lease-seconds", 3)
    async with Remote(server.url, token=server.token) as remote:
        sandbox = await remote.create()
        await asyncio.sleep(7)  # longer than the lease
        assert (await sandbox.run(["true"])).ok


async def test_a_sandbox_with_a_time_to_live_ends_without_a_call(
    sandbox_server: Callable[..., Any],
) -> None:
    server = sandbox_server()
    async with Remote(server.url, token=server.token) as remote:
        short = await remote.create(SandboxSpec(ttl_seconds=0.5))
        long = await remote.create(SandboxSpec(ttl_seconds=60))
        await until(lambda: not Path(short.folder).exists(), "it is closed")
        with pytest.raises(SandboxLost):
            await short.run(["true"])
        assert (await long.run(["true"])).ok


CLIENT = """
import asyncio, sys
from rolecraft.sandboxes import Remote, SandboxLimits
async def main():
    remote = Remote(sys.argv[1], token=sys.argv[2])
    sandbox = await remote.create()
    print(sandbox.folder, flush=True)
    shell = await sandbox.shell()
    line = f"sleep 1000; : {sys.argv[3]}"
    both = shell.run(line, seconds=900), sandbox.run(
        ["sh", "-c", line], limits=SandboxLimits(seconds=900))
    await asyncio.gather(*both)
asyncio.run(main())
"""


@pytest.mark.slow
async def test_after_a_kill_9_of_the_client_nothing_of_it_is_left(
    sandbox_server: Callable[..., Any],
) -> None:
    server, mark = sandbox_server("--lease-seconds", 3), uuid.uuid4().hex
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, server.url, server.token, mark),
        stdout=asyncio.subprocess.PIPE,
    )
    assert client.stdout is not None
    folder = Path((await client.stdout.readline()).decode().strip())
    await until(lambda: bool(inside(folder)), "its commands run")
    await asyncio.sleep(7)  # longer than the lease: a client that waits is alive
    assert inside(folder)
    client.kill()
    await client.communicate()
    await until(lambda: not folder.exists(), "the folder is gone")
    await until(lambda: not inside(folder) and not processes(mark), "its commands are gone")


@pytest.mark.slow
async def test_a_server_that_ends_closes_every_sandbox(sandbox_server: Callable[..., Any]) -> None:
    server = sandbox_server("--grace", 1)
    mark = uuid.uuid4().hex
    async with Remote(server.url, token=server.token, reconnect_seconds=0.2) as remote:
        first, second = await asyncio.gather(remote.create(), remote.create())
        shell = await first.shell()
        line = asyncio.create_task(shell.run(f"sleep 1000; : {mark}", seconds=900))
        await until(lambda: bool(inside(Path(first.folder))), "the line runs")
        assert await asyncio.to_thread(server.end, signal.SIGTERM) == 0
        with pytest.raises(SandboxError):
            await line
        assert not there(first.folder, second.folder)
        assert not processes(mark)
        with pytest.raises(SandboxLost, match="cannot be reached"):
            await second.run(["true"])
        with pytest.raises(SandboxLost):
            await remote.aclose()


@pytest.mark.slow
async def test_after_a_kill_9_of_the_server_its_sandboxes_are_lost_and_its_files_taken_away(
    sandbox_server: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes are the provider's to end, and `LocalProcess` cannot; see the next test."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "a").write_text("a")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))  # other servers have theirs elsewhere

    def leftovers() -> int:
        return len([*(tmp_path / "tmp").glob(f"{PREFIX}*")])

    server = sandbox_server()
    remote = Remote(server.url, token=server.token, reconnect_seconds=60)
    sandbox = await remote.create(SandboxSpec(base=tmp_path / "base"))
    assert leftovers() == 1
    server.process.kill()
    await asyncio.to_thread(server.process.wait)
    running = asyncio.create_task(remote.run(["echo", "on the new one"]))
    await asyncio.sleep(0.3)
    again = sandbox_server("--port", server.port)
    assert (await running).stdout == "on the new one\n", "it was never begun on the old one"
    with pytest.raises(SandboxLost):
        await sandbox.run(["true"])
    other = await remote.create(SandboxSpec(base=tmp_path / "base"))
    assert await other.read("a") == b"a", "the new server got the folder anew"
    assert leftovers() == 1, "what the killed one left was taken away"
    await remote.aclose()
    assert again.end(signal.SIGTERM) == 0
    assert leftovers() == 0


@pytest.mark.slow
async def test_after_a_kill_9_of_a_server_with_walls_nothing_is_left_running(
    sandbox_server: Callable[..., Any], needs_program: Any
) -> None:
    needs_program("bwrap", package="bubblewrap")
    server, mark = sandbox_server("--provider", "bubblewrap"), uuid.uuid4().hex
    remote = Remote(server.url, token=server.token, reconnect_seconds=0.2)
    sandbox = await remote.create()
    shell = await sandbox.shell()
    line = f"(setsid sleep 1000; : {mark}) & sleep 1000; : {mark}"
    running = [
        asyncio.create_task(shell.run(f"bash -c '{line}'", seconds=900)),
        asyncio.create_task(sandbox.run(["bash", "-c", line], limits=SandboxLimits(seconds=900))),
    ]
    await until(lambda: len(processes(mark)) >= 2, "both run")
    server.process.kill()
    await until(lambda: not processes(mark), "nothing of them runs")
    for each in running:
        with pytest.raises(SandboxLost):
            await each
    with pytest.raises(SandboxLost):
        await remote.aclose()


@pytest.mark.slow
async def test_a_command_that_a_killed_server_may_have_run_is_lost_and_not_run_on_the_next(
    sandbox_server: Callable[..., Any], tmp_path: Path
) -> None:
    server, log = sandbox_server(), tmp_path / "log"
    async with Remote(server.url, token=server.token, reconnect_seconds=20) as remote:
        running = asyncio.create_task(remote.run(["sh", "-c", f"echo begun >> {log}; sleep 2"]))
        await until(log.exists, "it runs")
        server.process.kill()
        await asyncio.to_thread(server.process.wait)
        sandbox_server("--port", server.port)
        with pytest.raises(SandboxLost, match="nobody knows whether"):
            await running
    assert log.read_text() == "begun\n"


@contextlib.asynccontextmanager
async def raw(server: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = {
        "authorization": f"Bearer {server.token}",
        "rolecraft-lease": uuid.uuid4().hex,
    }
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
        yield client


def there(*folders: str) -> list[str]:
    return [folder for folder in folders if os.path.exists(folder)]


def inside(folder: Path) -> list[str]:
    """Processes whose working folder is below this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if os.readlink(path).startswith(str(folder)):
                found.append(path.parent.name)
    return found


def processes(mark: str) -> list[str]:
    """Processes that have this in their command line, but for the client of a test."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes()
            if mark.encode() in line and b"rolecraft.sandboxes" not in line:
                found.append(path.parent.name)
    return found


async def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"not so within 60 s: {what}"
        await asyncio.sleep(0.02)
