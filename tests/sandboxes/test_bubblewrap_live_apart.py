"""What is kept is never changed afterwards, and each command answers for itself alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import Bubblewrap, SandboxFileError, SandboxSpec
from rolecraft.sandboxes._gate import Gate
from rolecraft.sandboxes._keeper_live import KeptSandbox
from rolecraft.sandboxes._keeper_streams import READS, read_all
from rolecraft.sandboxes._output import HeadAndTail

MIB = 2**20
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="these are root's ways")


@pytest.fixture
def _bwrap(needs_program: Callable[..., None]) -> None:
    needs_program("bwrap", package="bubblewrap")


TAKE = """
import os, socket, time
here = socket.socket(socket.AF_UNIX); here.bind("\\x00%s"); here.listen(1); open("up", "w").close()
folder = socket.recv_fds(here.accept()[0], 1, 1)[1][0]
open("got", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
for name, flags in (("planted", os.O_CREAT), ("f", os.O_TRUNC)):
    try: os.write(os.open(name, os.O_WRONLY | flags, dir_fd=folder), b"changed")
    except OSError as error: print(error.strerror)
"""
HAND_OVER = """
import os, socket
there = socket.socket(socket.AF_UNIX); there.connect("\\x00%s")
socket.send_fds(there, [b"x"], [os.open(".", os.O_RDONLY | os.O_DIRECTORY)])
"""


@pytest.mark.usefixtures("_bwrap")
async def test_a_folder_handed_to_another_sandbox_cannot_be_changed_once_it_is_kept() -> None:
    """On the host's network two sandboxes can meet, and hand each other what they have open."""
    provider, name = Bubblewrap(), uuid.uuid4().hex
    async with (
        await provider.create(SandboxSpec(network="full", files={"f": "as it was"})) as one,
        await provider.create(SandboxSpec(network="full")) as other,
    ):
        taking = asyncio.create_task(other.run(["python3", "-c", TAKE % name]))
        await _there(other.read, "up")
        handed = await one.run(["python3", "-c", HAND_OVER % name])
        assert handed.ok, handed.stderr
        await _there(other.read, "got")
        snapshot = await one.snapshot()
        fork = await snapshot.create()
        await other.write("go", "")
        assert (await taking).stdout == "Read-only file system\n" * 2
        for sandbox in (one, fork, await snapshot.create()):
            assert (await sandbox.run(["sh", "-c", "ls; cat f"])).stdout == "f\nas it was"
            await sandbox.write("f", "its own")


@pytest.mark.usefixtures("_bwrap")
async def test_what_somebody_else_can_still_write_to_is_not_kept_and_the_sandbox_lives_on() -> None:
    async with await Bubblewrap().create() as sandbox:
        assert isinstance(sandbox, KeptSandbox)
        fd = await sandbox.open("f", os.O_WRONLY | os.O_CREAT, mode=0o644)
        os.write(fd, b"before, ")
        with pytest.raises(SandboxError, match="open for writing"):
            await sandbox.snapshot()
        os.write(fd, b"after")
        os.close(fd)
        assert (await sandbox.run(["sh", "-c", "echo more > g; cat f"])).stdout == "before, after"
        fork = await sandbox.fork()
        assert (await fork.run(["cat", "f", "g"])).stdout == "before, aftermore\n"


@pytest.mark.usefixtures("_bwrap")
async def test_a_fork_has_files_that_are_written_at_that_time_whole(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}").write_bytes(bytes(MIB // 4))
    async with await Bubblewrap().create() as sandbox:
        *_, fork, _ = await asyncio.gather(
            sandbox.write("large", bytes(8 * MIB)),
            sandbox.upload(tmp_path, "many"),
            sandbox.fork(),
            sandbox.write("late", "x"),
        )
        look = "stat -c %s large; du -b many/* | cut -f 1 | uniq -c; ls late"
        done = await fork.run(["sh", "-c", look])
        assert done.stdout.split() == [str(8 * MIB), "40", str(MIB // 4)]
        assert "late" in done.stderr
        assert (await sandbox.run(["cat", "late"])).stdout == "x"


async def test_a_gate_lets_one_in_alone_once_the_others_are_out() -> None:
    gate, seen, leave = Gate(), list[str](), asyncio.Event()

    async def inside(name: str) -> None:
        async with gate.inside():
            seen.append(f"{name} in")
            await leave.wait()
        seen.append(f"{name} out")

    async def alone() -> None:
        async with gate.alone():
            seen.append("alone")

    tasks = [asyncio.create_task(each) for each in (inside("a"), inside("b"), alone(), inside("c"))]
    await asyncio.sleep(0.01)
    assert seen == ["a in", "b in"]
    leave.set()
    await asyncio.gather(*tasks)
    assert seen.index("alone") > max(seen.index("a out"), seen.index("b out"))
    assert seen.index("c in") > seen.index("alone")


async def test_a_gate_opens_again_when_who_was_to_be_alone_is_cancelled() -> None:
    gate = Gate()
    async with gate.inside():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01), gate.alone():
                pytest.fail("somebody is inside")
        async with asyncio.timeout(60), gate.inside():
            pass
    async with asyncio.timeout(60), gate.alone():
        pass


@pytest.mark.usefixtures("_bwrap")
async def test_a_command_killed_for_memory_takes_no_other_of_its_sandbox_with_it() -> None:
    async with await Bubblewrap().create() as sandbox:
        assert isinstance(sandbox, KeptSandbox)
        if sandbox._group is None or "memory" not in sandbox._group.held:
            pytest.skip("no control group counts memory here")
        shell = await sandbox.shell()
        wait = "while [ ! -e go ]; do sleep .1; done"
        other = asyncio.create_task(sandbox.run(["sh", "-c", wait]))
        large = "python3 -c 'bytearray(900 * 2**20)'"
        done = await sandbox.run(["sh", "-c", f"{large}; sleep 100"])
        assert done.killed_for_memory
        assert not done.timed_out, "what waited for it is ended, too"
        await sandbox.write("go", "")
        innocent = await other
        assert (innocent.exit_code, innocent.failure) == (0, None)
        assert (await shell.run("echo on")).stdout == "on\n"
        again = await sandbox.run(["true"])
        assert again.ok, "in the same group as one that was killed"


async def test_others_have_their_turn_while_output_is_read(tmp_path: Path) -> None:
    """A file is never waited for: as a pipe that somebody fills faster than it is read."""
    pieces = 10 * READS
    (tmp_path / "f").write_bytes(bytes(pieces * 65536))
    turns, done = 0, asyncio.Event()

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    fd, output = os.open(tmp_path / "f", os.O_RDONLY), HeadAndTail(1000)
    await read_all(fd, output)
    done.set()
    await task
    os.close(fd)
    assert len(output) == pieces * 65536
    assert turns >= 10


@pytest.mark.usefixtures("_bwrap")
async def test_a_command_can_have_1024_files_open_and_no_memory_that_outlives_it() -> None:
    code = "import ctypes; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600))"
    async with await Bubblewrap().create() as sandbox:
        assert int((await sandbox.run(["sh", "-c", "ulimit -Hn"])).stdout) <= 1024
        assert (await sandbox.run(["python3", "-c", code])).stdout == "-1\n"


@as_root
@pytest.mark.usefixtures("_bwrap")
async def test_the_keeper_has_no_more_files_open_after_many_sandboxes(tmp_path: Path) -> None:
    provider = Bubblewrap()
    before = _keepers()
    counts = []
    for _ in range(6):
        async with await provider.create(SandboxSpec(base=tmp_path)) as sandbox:
            await sandbox.run(["true"])
            await (await sandbox.fork()).close()
        counts.append(sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in _keepers() - before))
    assert counts[-1] == counts[1] > 0


@as_root
def test_a_user_namespace_that_is_remembered_no_more_is_closed() -> None:
    from rolecraft.sandboxes import _overlay_base

    held = _overlay_base._namespace(12345, 12345)
    fd = held.fd
    _overlay_base._namespace.cache_clear()
    os.fstat(fd)  # not while it is in use
    del held
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


NO_FILES = """
import asyncio, os
from rolecraft.sandboxes import Bubblewrap
from rolecraft.errors import SandboxError
async def main():
    provider = Bubblewrap()
    sandbox = await provider.create()
    if sandbox._group is None or len(sandbox._group.folders) < 2:
        return print("no groups")
    places = [os.path.dirname(each.path) for each in sandbox._group.folders]
    before = [os.listdir(place) for place in places]
    filled = []
    try:
        while True: filled.append(os.open("/dev/null", os.O_RDONLY))
    except OSError: pass
    for fd in filled[:2]: os.close(fd)
    try: await provider.create()
    except SandboxError as error: said = error
    for fd in filled[2:]: os.close(fd)
    print(said)
    print([sorted(os.listdir(place)) for place in places] == [sorted(each) for each in before])
import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
asyncio.run(main())
"""


@pytest.mark.usefixtures("_bwrap")
def test_without_files_to_open_no_sandbox_is_made_and_no_control_group_is_left() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_FILES], capture_output=True, text=True, timeout=60, check=False
    )
    if done.stdout == "no groups\n":
        pytest.skip("no control groups here")
    assert "Too many open files" in done.stdout, done.stderr
    assert done.stdout.endswith("\nTrue\n"), done.stdout + done.stderr


def _keepers() -> set[int]:
    """The processes of this one that keep sandboxes: each is the one child of one that waits."""
    found, above = set[int](), {os.getpid()}
    while above:
        children = set[int]()
        for pid in above:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    children |= set(map(int, (task / "children").read_text().split()))
        above = set()
        for pid in children:
            with contextlib.suppress(OSError):  # it has ended
                if b"sandboxes._keeper import" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    above.add(pid)
        found |= above
    return found


async def _there(read: Callable[..., object], name: str) -> None:
    """Wait for a file of a sandbox."""
    async with asyncio.timeout(60):
        while True:
            try:
                await read(name)  # type: ignore[misc]
                return
            except SandboxFileError:
                await asyncio.sleep(0.02)
