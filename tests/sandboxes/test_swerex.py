"""`SweRex` with SWE-ReX's own local runtime, in this process and behind its own server."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import (
    AllowList,
    SandboxFileError,
    SandboxLimits,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
)


@pytest.fixture
def _swerex() -> None:
    pytest.importorskip("swerex", reason="needs the package swe-rex")


def local() -> object:
    from rolecraft.sandboxes.swerex import SweRex

    return SweRex("local")


@pytest.mark.usefixtures("_swerex")
async def test_exit_3_ends_one_shell_with_its_code_and_nothing_else() -> None:
    """In SWE-ReX's own session it is the end of the session, and every later line an error."""
    async with await local().create() as sandbox:
        shell, other = await sandbox.shell(), await sandbox.shell()
        assert (await shell.run("exit 3")).exit_code == 3
        with pytest.raises(SandboxLost):
            await shell.run("true")
        assert (await other.run("echo still here")).stdout == "still here\n"


@pytest.mark.usefixtures("_swerex")
async def test_output_is_exact() -> None:
    """SWE-ReX's sessions read a terminal: carriage returns, and escape codes taken out."""
    async with await local().create() as sandbox:
        shell = await sandbox.shell()
        assert (await shell.run(r"printf 'a\nb\r\n\033[1mc'")).stdout == "a\nb\r\n\033[1mc"
        done = await sandbox.run(["printf", r"a\n\303"])
        assert done.stdout == "a\n�"


@pytest.mark.usefixtures("_swerex")
async def test_nothing_of_ours_waits_while_swe_rex_does() -> None:
    """Its local runtime blocks the loop it runs in, which is therefore not ours."""
    async with await local().create() as sandbox:
        running, turns = asyncio.create_task(sandbox.run(["sleep", "2"])), 0
        while not running.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert (await running).ok
        assert turns > 20, "200 where nothing else runs"


@pytest.mark.slow
@pytest.mark.usefixtures("_swerex")
async def test_files_limits_and_a_fork(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base/data.bin").write_bytes(bytes(range(256)) * 1000)
    limits = SandboxLimits(seconds=5)
    async with await local().create(SandboxSpec(base=tmp_path / "base", limits=limits)) as sandbox:
        assert await sandbox.read("data.bin") == bytes(range(256)) * 1000
        with pytest.raises(SandboxFileError, match="outside"):
            await sandbox.read("/etc/hostname")
        slow = await sandbox.run(["sleep", "60"], limits=SandboxLimits(seconds=0.5))
        assert slow.failure == "timeout"
        hog = ["python3", "-c", "import time; x = bytearray(10**8); time.sleep(60)"]
        few = SandboxLimits(seconds=20, memory_bytes=64 * 2**20)
        assert (await sandbox.run(hog, limits=few)).failure == "memory"
        much = await sandbox.run(
            ["sh", "-c", "head -c 10000000 /dev/zero; echo end"],
            limits=SandboxLimits(seconds=20, output_bytes=1000),
        )
        assert much.stdout_truncated
        assert much.stdout.endswith("\0end\n")
        assert len(much.stdout) < 1100
        copy = await sandbox.fork()
        await sandbox.write("data.bin", "changed")
        assert len(await copy.read("data.bin")) == 256_000
        await copy.close()
        folder = Path(sandbox.folder)
    assert not folder.parent.exists(), "nothing of it is left on disk"


@pytest.mark.usefixtures("_swerex")
async def test_what_runs_in_the_background_ends_with_the_command() -> None:
    mark = uuid.uuid4().hex
    async with await local().create() as sandbox:
        line = f"setsid sh -c 'sleep 1000; : {mark}' & sleep 0.2"
        assert (await sandbox.run(["sh", "-c", line])).ok
        assert not running(mark)


def running(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"sh" and any(mark.encode() in word for word in words):
            return True
    return False


@pytest.mark.usefixtures("_swerex")
async def test_it_holds_no_walls_and_says_so() -> None:
    assert local().walls == frozenset()
    for spec, what in (
        (SandboxSpec(requires=frozenset({"files"})), "files"),
        (SandboxSpec(network=AllowList(("example.org",))), "AllowList"),
        (SandboxSpec(ports=(8000,)), "ports"),
        (SandboxSpec(image="python:3.12"), "image"),
    ):
        with pytest.raises(SandboxRefused, match=what):
            await local().create(spec)


@pytest.fixture
def server(_swerex: None) -> Iterator[tuple[int, str]]:
    """SWE-ReX's own server, as its deployments start it in a container."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = uuid.uuid4().hex
    words = ["-m", "swerex.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, *words, "--auth-token", token],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline
            time.sleep(0.05)
    yield port, token
    process.kill()
    process.wait()


@pytest.mark.slow
async def test_a_server_of_swe_rex_is_used_and_its_end_is_a_lost_sandbox(
    server: tuple[int, str],
) -> None:
    from rolecraft.sandboxes.swerex import SweRex

    port, token = server
    remote = SweRex("remote", host="http://127.0.0.1", port=port, auth_token=token)
    async with await remote.create(SandboxSpec(files={"name.txt": "content"})) as sandbox:
        assert (await sandbox.run(["cat", "name.txt"])).stdout == "content"
        shell = await sandbox.shell()
        await shell.run("x=7")
        assert (await shell.run("echo $x")).stdout == "7\n"
        # One long command does not keep another waiting: the server does one thing at a time.
        long = asyncio.create_task(sandbox.run(["sleep", "60"]))
        assert (await sandbox.run(["echo", "quick"])).stdout == "quick\n"
        assert not long.done()
        long.cancel()
        await asyncio.wait([long])
    wrong = SweRex("remote", host="http://127.0.0.1", port=port, auth_token="wrong")
    with pytest.raises(SandboxError, match=r"is gone.*403|is gone.*Unauthorized|401"):
        await wrong.create()


def test_without_swe_rex_one_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from rolecraft.sandboxes.swerex import SweRex

    monkeypatch.setitem(sys.modules, "swerex.deployment.modal", None)
    with pytest.raises(UsageError, match=r"swe-rex\[modal\]"):
        SweRex("modal")
    with pytest.raises(UsageError, match="the kinds are"):
        SweRex("lambda")  # type: ignore[arg-type]
