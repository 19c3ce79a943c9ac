"""Landlock holds what it declares, on this kernel and on older ones, and says what it cannot."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import AllowList, SandboxRefused, SandboxSpec
from rolecraft.sandboxes import landlock as module
from rolecraft.sandboxes._landlock import version
from rolecraft.sandboxes.base import Sandbox, SandboxLimits
from rolecraft.sandboxes.conformance import SandboxConformance
from rolecraft.sandboxes.conformance_live import LiveSandboxConformance
from rolecraft.sandboxes.landlock import Landlock

pytestmark = pytest.mark.skipif(version() < 1, reason="this kernel has no Landlock")
root = pytest.mark.skipif(os.geteuid() != 0, reason="wants root")


class TestLandlock(SandboxConformance):
    def make(self) -> Sandbox:
        return Landlock()


class TestLandlockThatLivesOn(LiveSandboxConformance):
    def make(self) -> Landlock:
        return Landlock()


class TestLandlockOfOlderKernels(SandboxConformance):
    """Version 4 (Linux 6.7): signals are not held, so the guard looks for what it must end."""

    def make(self) -> Sandbox:
        return Landlock(version=4)


class TestLandlockOfOlderKernelsThatLivesOn(LiveSandboxConformance):
    def make(self) -> Landlock:
        return Landlock(version=4)


def test_it_declares_what_this_kernel_and_this_user_let_it_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module._cgroups, "find_places", list)
    monkeypatch.setattr(module.os, "geteuid", lambda: 0)
    assert Landlock(version=7).walls == {"network", "files", "survivors"}
    assert Landlock(version=5).walls == {"network", "files"}
    assert Landlock(version=2).walls == {"network"}, "files could be cut to nothing"
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    assert Landlock(version=7).walls == {"network", "survivors"}, "modes are the owner's to change"


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        (SandboxSpec(requires=frozenset({"disk", "processes", "network"})), ("disk", "processes")),
        (SandboxSpec(network=AllowList(("example.org",))), ("network=",)),
        (SandboxSpec(image="debian"), ("image",)),
        (SandboxSpec(root="/usr"), ("root",)),
        (SandboxSpec(ports=(80,)), ("ports=",)),
    ],
)
async def test_what_it_cannot_hold_is_refused(spec: SandboxSpec, missing: tuple[str, ...]) -> None:
    with pytest.raises(SandboxRefused) as raised:
        await Landlock().create(spec)
    assert len(raised.value.missing) == len(missing)
    for found, start in zip(raised.value.missing, missing, strict=True):
        assert found.startswith(start)


async def test_a_kernel_without_landlock_is_an_error_and_no_plain_process(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no Landlock"):
        await Landlock(version=0).run(["touch", str(tmp_path / "it-ran")])
    assert not (tmp_path / "it-ran").exists()


async def test_the_base_is_copied_and_never_changed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("a\n")
    (tmp_path / "link").symlink_to("folder/a.txt")
    async with await Landlock().create(SandboxSpec(base=tmp_path)) as sandbox:
        line = "cat link; echo b > folder/a.txt && echo c > new && rm link && ls"
        assert (await sandbox.run(["sh", "-c", line])).stdout == "a\nfolder\nnew\n"
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]
    assert (tmp_path / "link").read_text() == "a\n"


async def test_forks_and_snapshots_go_their_own_ways_and_leave_nothing() -> None:
    provider, folders = Landlock(), []
    async with await provider.create(SandboxSpec(files={"a": "1"})) as first:
        snapshot = await first.snapshot()
        await first.write("a", "2")
        async with await first.fork() as second, await snapshot.create() as third:
            await second.write("a", "3")
            contents = [await each.read("a") for each in (first, second, third)]
            assert contents == [b"2", b"3", b"1"]
            folders = [Path(each.folder).parent for each in (first, second, third)]
            assert (await third.run(["sh", "-c", "echo x > new"])).ok
        await snapshot.close()
    assert not any(folder.exists() for folder in (*folders, snapshot.kept))


async def test_sandboxes_of_one_provider_cannot_reach_each_other() -> None:
    """They run as the same user, and only the rules are between them."""
    provider = Landlock()
    async with (
        await provider.create(SandboxSpec(files={"secret": "a secret"})) as one,
        await provider.create() as other,
    ):
        shell = await one.shell()
        pid = int((await shell.run("echo $$")).stdout)
        for line in (
            f"cat {one.folder}/secret",
            f"echo x > {one.folder}/new",
            f"kill -9 {pid}",
            f"prlimit --pid {pid} --nofile=0",
            f"renice 19 {pid}",
        ):
            assert not (await other.run(["sh", "-c", line])).ok, line
        assert (await shell.run("echo lives; ls")).stdout == "lives\nsecret\n"


def running(code: str, mark: str) -> subprocess.Popen[bytes]:
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    until(lambda: processes(mark) >= 3, "the command runs")
    return program


LIVES = """
import asyncio
from rolecraft.sandboxes.landlock import Landlock
async def main():
    sandbox = await Landlock({arguments}).create()
    print(sandbox.folder, flush=True)
    snapshot = await sandbox.snapshot()
    await sandbox.write("file", "content")
    wait = "sh -c 'sleep 999; : {mark}'"
    await sandbox.run(["sh", "-c", f"setsid {{wait}} & ({{wait}} &); {{wait}}"])
asyncio.run(main())
"""


@pytest.mark.parametrize("arguments", ["", "version=5"])
def test_nothing_runs_and_nothing_is_on_disk_when_the_parent_is_killed_with_9(
    arguments: str,
) -> None:
    """Version 5 does not promise it; for these, which do not race, it does."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o777)  # for the user that commands run as
        with subprocess.Popen(
            [sys.executable, "-c", LIVES.format(arguments=arguments, mark=mark)],
            env={**os.environ, "TMPDIR": folder},
        ) as program:
            try:
                until(lambda: processes(mark) >= 3, "the command runs")
                assert len(os.listdir(folder)) == 2
            finally:
                program.kill()
        until(lambda: processes(mark) == 0, "nothing runs")
        until(lambda: not os.listdir(folder), "nothing is on disk")


@root
async def test_a_temporary_folder_that_the_user_may_not_use_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        monkeypatch.setattr(module.tempfile, "gettempdir", lambda: folder)
        with pytest.raises(SandboxError, match=rf"`{folder}`.*TMPDIR"):
            await Landlock().run(["true"])


async def test_when_its_keeper_is_killed_everything_ends_and_callers_are_told() -> None:
    from rolecraft.sandboxes import SandboxLost

    mark = uuid.uuid4().hex
    sandbox = await Landlock().create()
    run = asyncio.create_task(sandbox.run(["sh", "-c", f"setsid sleep 999 & sleep 999; : {mark}"]))
    await asyncio.to_thread(until, lambda: processes(mark) > 0, "the command runs")
    os.kill(keeper(mark), signal.SIGKILL)
    with pytest.raises(SandboxLost):
        await run
    await asyncio.to_thread(until, lambda: processes(mark) == 0, "nothing runs")
    await sandbox.close()
    assert not await asyncio.to_thread(os.path.exists, sandbox.folder)


@pytest.mark.skipif(version() < 6, reason="wants signals to be held")
async def test_what_forks_faster_than_anybody_can_look_ends_with_its_command() -> None:
    """Each process makes the next one and ends: a list of them is old before it is read."""
    mark = uuid.uuid4().hex
    chain = "import os\nwhile True:\n  if os.fork(): os._exit(0)\n  os.setsid()"
    async with await Landlock().create() as sandbox:
        done = await sandbox.run(
            ["sh", "-c", f"python3 -c '{chain}' {mark} & python3 -c '{chain}' {mark} & sleep 0.3"]
        )
        assert done.ok
        assert processes(mark) == 0


AS_USER = """
import asyncio, concurrent.futures.thread, encodings.idna, os, sys
from rolecraft.sandboxes.landlock import Landlock
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
os.chdir("/")
sys.executable = "/usr/bin/python3"  # the tests' own may be out of this user's reach
bomb = "import os, time\\nn = 0\\ntry:\\n  while True:\\n    n += 1\\n"
bomb += "    os.fork() or time.sleep(9)\\nexcept OSError: print(n)"
async def main():
    from rolecraft.sandboxes import SandboxLimits
    provider = Landlock()
    print(sorted(provider.walls))
    few = SandboxLimits(processes=16)
    for command, limits in [
        (["sh", "-c", "id -u; cat /etc/passwd; ls / /tmp; kill -9 -1"], SandboxLimits()),
        (["python3", "-c", bomb], few),
        (["sleep", "60"], SandboxLimits(seconds=0.2)),
    ]:
        done = await provider.run(command, limits=limits)
        print(done.exit_code, done.timed_out, done.stdout.strip(), flush=True)
asyncio.run(main())
"""


@root
@pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="no Python for everybody")
def test_it_works_for_an_ordinary_user_too() -> None:
    """Without control groups: processes are bounded, though all of the user's are counted."""
    done = subprocess.run(
        [sys.executable, "-c", AS_USER], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    walls, first, second, third = done.stdout.splitlines()
    assert walls == "['network', 'survivors']"
    assert first.split()[1:] == ["False", "65534"]
    exit_code, _, made = second.split()
    assert exit_code == "0"
    assert 2 < int(made) <= 17
    assert third.split() == ["137", "True"]


async def test_a_network_that_is_asked_for_has_no_unix_sockets() -> None:
    import socket

    path = f"/tmp/rolecraft-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(path)
        local.listen()
        os.chmod(path, 0o777)
        code = f"""
import socket
socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 5)
print("reached")
socket.socket(socket.AF_UNIX).connect({path!r})
"""
        try:
            async with await Landlock().create(SandboxSpec(network="full")) as sandbox:
                done = await sandbox.run(["python3", "-c", code])
        finally:
            os.unlink(path)
    assert done.stdout == "reached\n"
    assert "PermissionError" in done.stderr


async def test_memory_that_runs_out_is_named_as_the_reason() -> None:
    limits = SandboxLimits(memory_bytes=64 * 2**20)
    code = "import time\nx = [bytearray(4 << 20) for _ in range(40)]\ntime.sleep(60)"
    done = await Landlock().run(["python3", "-c", code], limits=limits)
    assert done.failure == "memory"


def safe(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def keeper(mark: str) -> int:
    """The one that keeps the processes with `mark`. (This process may have had others, which end
    with the event loops they served; and the largest number need not be the latest.)"""
    pid = next(
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if mark.encode() in safe(path) and b"rolecraft" not in safe(path)
    )
    while (above := parent(pid)) != os.getpid():
        assert above > 1, "it is no descendant of this process"
        pid = above
    return pid


def parent(pid: int) -> int:
    return int(safe(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()[1] or 0)


def processes(mark: str) -> int:
    """How many processes of a sandbox have `mark` in their command line."""
    lines = (safe(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    return sum(mark.encode() in line and b"rolecraft" not in line for line in lines)


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"not so within 60 s: {what}"
        time.sleep(0.01)
