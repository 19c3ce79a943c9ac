"""What is bubblewrap's alone in sandboxes that live on: layers, the keeper, whom they run as."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import (
    Bubblewrap,
    SandboxFileError,
    SandboxLimits,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
)

MIB = 2**20


@pytest.fixture(autouse=True)
def _bwrap(needs_program: Callable[..., None]) -> None:
    needs_program("bwrap", package="bubblewrap")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with `a`, `d/b` and a link; its owner is whoever runs the tests."""
    folder = tmp_path / "base"
    (folder / "d").mkdir(parents=True)
    (folder / "a").write_text("a of the base\n")
    (folder / "d" / "b").write_text("b of the base\n")
    (folder / "link").symlink_to("d/b")
    (folder / "private").write_text("for its owner\n")
    (folder / "private").chmod(0o600)
    return folder


async def test_a_base_can_be_changed_in_the_sandbox_and_stays_as_it_is_on_disk(base: Path) -> None:
    change = (
        "cat private; echo new > a; rm d/b; mv d e; echo more >> private; chmod 600 a;"
        "mkdir f && echo f > f/f; rm -r e; mkdir e; ls e; find . -type f | sort; cat a"
    )
    async with await Bubblewrap().create(SandboxSpec(base=base)) as sandbox:
        done = await sandbox.run(["sh", "-c", change])
        assert done.stdout == "for its owner\n./a\n./f/f\n./private\nnew\n", done.stderr
    assert (base / "a").read_text() == "a of the base\n"
    assert (base / "d" / "b").read_text() == "b of the base\n"
    assert (base / "private").read_text() == "for its owner\n"
    assert sorted(os.listdir(base)) == ["a", "d", "link", "private"]


async def test_a_base_with_a_name_that_overlays_read_as_several_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "a:b,c\\d e"
    folder.mkdir()
    (folder / "f").write_text("x")
    async with await Bubblewrap().create(SandboxSpec(base=folder)) as sandbox:
        assert (await sandbox.run(["ls"])).stdout == "f\n"


async def test_forks_see_what_was_there_and_not_each_other(base: Path) -> None:
    async with await Bubblewrap().create(SandboxSpec(base=base)) as sandbox:
        await sandbox.run(["sh", "-c", "echo 1 > a; rm d/b"])
        forks = [await sandbox.fork() for _ in range(3)]
        for number, fork in enumerate(forks):
            await fork.run(["sh", "-c", f"echo fork{number} >> a; echo {number} > own"])
        await sandbox.run(["sh", "-c", "rm -r d"])
        for number, fork in enumerate(forks):
            look = "cat a own; ls d | wc -l"
            assert (await fork.run(["sh", "-c", look])).stdout == f"1\nfork{number}\n{number}\n0\n"
        assert (await sandbox.run(["sh", "-c", "cat a; ls"])).stdout == "1\na\nlink\nprivate\n"
        for fork in forks:
            await fork.close()
        assert (await sandbox.run(["cat", "a"])).stdout == "1\n"


async def test_a_fork_of_200_mb_takes_no_time_and_no_memory() -> None:
    limits = SandboxLimits(disk_bytes=400 * MIB, file_bytes=400 * MIB, memory_bytes=1024 * MIB)
    async with await Bubblewrap().create(SandboxSpec(limits=limits)) as sandbox:
        fill = "head -c 209715200 /dev/urandom > big; cp /usr/bin/true t"
        assert (await sandbox.run(["sh", "-c", fill])).ok
        before, times, small = _in_memory(), [], []
        forks = []
        async with await Bubblewrap().create() as empty:
            for _ in range(10):
                began = time.perf_counter()
                forks.append(await sandbox.fork())
                times.append(time.perf_counter() - began)
                began = time.perf_counter()
                await (await empty.fork()).close()
                small.append(time.perf_counter() - began)
        assert _in_memory() - before < 100 * MIB, "ten copies would be 2,000"
        assert min(times) < 5 * min(small), "some 20 ms, and a copy takes 100 more"
        done = await forks[9].run(["sh", "-c", "stat -c %s big; ./t && rm big && ls"])
        assert done.stdout == "209715200\nt\n", done
        assert (await sandbox.run(["ls"])).stdout == "big\nt\n"


async def test_snapshots_of_snapshots_work_to_a_depth_that_is_said() -> None:
    provider = Bubblewrap()
    sandbox = await provider.create()
    refused = None
    for number in range(450):
        await sandbox.write(f"f{number % 7}", str(number))
        try:
            snapshot = await sandbox.snapshot()
        except SandboxError as error:
            refused = error
            break
        if number % 50 == 0:
            copy = await snapshot.create()
            assert await copy.read(f"f{number % 7}") == str(number).encode()
            await copy.close()
        await snapshot.close()
    assert number > 300
    assert "no more than 400 snapshots of snapshots" in str(refused)
    assert await sandbox.read("f0") == b"399", "it goes on as it was"
    await sandbox.write("f0", "and can be changed")
    assert (await sandbox.run(["sh", "-c", "ls | wc -l"])).stdout == "7\n"
    await sandbox.close()


async def test_a_snapshot_without_changes_adds_no_layer() -> None:
    async with await Bubblewrap().create(SandboxSpec(files={"f": "x"})) as sandbox:
        for _ in range(450):
            await (await sandbox.snapshot()).close()
        assert await sandbox.read("f") == b"x"


async def test_temporary_files_stay_over_a_snapshot_and_are_in_no_fork() -> None:
    async with await Bubblewrap().create() as sandbox:
        await sandbox.run(["sh", "-c", "echo t > /tmp/t; echo f > f"])
        fork = await sandbox.fork()
        assert (await sandbox.run(["cat", "/tmp/t", "f"])).stdout == "t\nf\n"
        assert (await fork.run(["sh", "-c", "ls /tmp; ls"])).stdout == "f\n"


async def test_a_disk_is_full_for_each_sandbox_alone_also_with_empty_files() -> None:
    limits = SandboxLimits(disk_bytes=2 * MIB, seconds=30, cpu_seconds=30)
    provider = Bubblewrap()
    async with (
        await provider.create(SandboxSpec(limits=limits)) as full,
        await provider.create(SandboxSpec(limits=limits)) as other,
    ):
        assert not (await full.run(["sh", "-c", "head -c 3000000 /dev/zero > x"])).ok
        with pytest.raises(SandboxFileError, match="space"):
            await full.write("more", b"x" * 500_000)
        code = "n = 0\ntry:\n  while True:\n    open(f'/tmp/{n}', 'x').close(); n += 1\n"
        code += "except OSError: print(n)"
        done = await full.run(["python3", "-c", code])
        assert 1000 < int(done.stdout) < 10_000
        assert (await other.run(["sh", "-c", "head -c 1000000 /dev/zero > x"])).ok


async def test_a_readable_folder_below_tmp_is_seen_through_the_sandboxes_own_tmp() -> None:
    folder = Path("/tmp") / f"rolecraft-{uuid.uuid4().hex}"
    folder.mkdir(mode=0o755)
    try:
        (folder / "f").write_text("seen")
        async with await Bubblewrap().create(SandboxSpec(readable=(folder,))) as sandbox:
            done = await sandbox.run(["sh", "-c", f"cat {folder}/f; echo x > {folder}/f; ls /tmp"])
            assert done.stdout == f"seen{folder.name}\n"
            assert "Read-only" in done.stderr
            assert (await sandbox.run(["sh", "-c", "echo x > /tmp/own"])).ok
    finally:
        (folder / "f").unlink()
        folder.rmdir()


async def test_sandboxes_share_neither_terminals_nor_shared_memory_nor_abstract_sockets() -> None:
    provider = Bubblewrap()
    async with await provider.create() as one, await provider.create() as other:
        shell = await one.shell()
        make = (
            "import os, pty, socket, time; from multiprocessing import shared_memory as m\n"
            "pty.openpty(); m.SharedMemory('rc', create=True, size=9)\n"
            "s = socket.socket(socket.AF_UNIX); s.bind('\\0rc'); s.listen()\n"
            "os.close(1); time.sleep(60)"
        )
        await one.write("make.py", make)
        await shell.run("python3 make.py > made & sleep 0.5")
        look = (
            "import os, socket; print(sorted(os.listdir('/dev/pts')), os.listdir('/dev/shm'))\n"
            "socket.socket(socket.AF_UNIX).connect('\\0rc')"
        )
        done = await other.run(["python3", "-c", look])
        assert done.stdout == "['ptmx'] []\n"
        assert "ConnectionRefused" in done.stderr
        assert "rc" in (await one.run(["ls", "/dev/shm"])).stdout


async def test_the_process_that_guards_a_command_can_be_neither_killed_nor_looked_into() -> None:
    attack = "kill -9 1; kill -TERM 1; kill -INT 1; kill -STOP 1; sleep 0.1; ls /proc/1/fd; cat "
    attack += "/proc/1/environ /proc/1/mem /proc/1/maps; cat /proc/1/root/etc/hostname; echo lives"
    async with await Bubblewrap().create() as sandbox:
        done = await sandbox.run(["bash", "-c", f"trap '' INT TERM; {attack}"])
        assert done.stdout == "lives\n"
        assert done.stderr.count("Permission denied") >= 4
        assert done.exit_code == 0


async def test_a_run_cannot_see_or_end_the_processes_of_a_shell() -> None:
    async with await Bubblewrap().create() as sandbox:
        shell = await sandbox.shell()
        await shell.run("kept=1; sleep 1000 &")
        done = await sandbox.run(["bash", "-c", "ls /proc | grep -c '^[0-9]'; kill -9 -1"])
        assert int(done.stdout) < 7
        assert (await shell.run("echo $kept; jobs %1")).stdout.startswith("1\n[1]")


async def test_when_the_keeper_is_killed_sandboxes_are_lost_and_the_next_one_is_not() -> None:
    provider = Bubblewrap()
    sandbox = await provider.create()
    shell = await sandbox.shell()
    mark = uuid.uuid4().hex
    running = asyncio.create_task(sandbox.run(["sh", "-c", f"sleep 1000; : {mark}"]))
    line = asyncio.create_task(shell.run(f"sh -c 'setsid sleep 1000; : {mark}'"))
    await _until(lambda: len(_with(mark)) >= 2, "both run")
    for keeper in _keepers_of(os.getpid()):
        os.kill(keeper, 9)
    for waiting in (running, line):
        with pytest.raises(SandboxLost):
            await waiting
    await _until(lambda: not _with(mark), "nothing of it is left")
    with pytest.raises(SandboxLost):
        await sandbox.run(["true"])
    await sandbox.close()
    async with await provider.create() as other:
        assert (await other.run(["echo", "on"])).stdout == "on\n"


async def test_a_provider_that_nobody_has_any_more_keeps_nothing() -> None:
    before = set(_keepers_of(os.getpid()))
    sandbox = await Bubblewrap().create()
    (keeper,) = set(_keepers_of(os.getpid())) - before
    await sandbox.close()
    assert _alive(keeper)
    del sandbox
    gc.collect()
    await _until(lambda: not _alive(keeper), "the keeper has ended")


def test_one_provider_serves_one_event_loop_after_the_other() -> None:
    provider = Bubblewrap()

    async def once() -> str:
        async with await provider.create() as sandbox:
            return (await sandbox.run(["echo", "hi"])).stdout

    assert [asyncio.run(once()) for _ in range(3)] == ["hi\n"] * 3


LAYERS = """
import os, sys
from rolecraft.sandboxes import _keeper
from rolecraft.sandboxes._overlay import Layers, overlays_work
_keeper._apart()
assert overlays_work() or sys.argv[2] == "False"
layers = Layers(overlays=sys.argv[2] == "True")
base = layers.hold([layers.of_host(sys.argv[1], None)])
top = layers.hold([layers.fresh(2**20)])[0]
work = layers.work_folder(top, base)
os.unlink("a", dir_fd=work)
os.symlink("d/b", "a", dir_fd=work)
os.mkfifo("pipe", dir_fd=work)
with open(os.open("d/new", os.O_WRONLY | os.O_CREAT, dir_fd=work), "w") as file:
    file.write("new")
if sys.argv[2] == "True":
    below = [top, *base]
else:
    layers.drop(base)
    below = [top]
again = layers.work_folder(layers.hold([layers.fresh(2**20)])[0], below)
look = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=again)
print(sorted(os.listdir(look)), os.readlink("a", dir_fd=again))
print(open(os.open("d/new", os.O_RDONLY, dir_fd=again)).read())
print(open(os.open("a", os.O_RDONLY, dir_fd=again)).read(), end="")
"""


@pytest.mark.parametrize("overlays", [True, False])
def test_where_no_overlay_can_be_mounted_layers_are_copies(overlays: bool) -> None:
    """As before Linux 6.6: the folders look the same, at the price of a copy."""
    folder = _for_all()
    try:
        done = subprocess.run(
            [sys.executable, "-c", LAYERS, str(folder), str(overlays)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "['a', 'd', 'pipe'] d/b\nnew\nold", done.stderr
    finally:
        subprocess.run(["rm", "-r", str(folder)], check=True)


def _for_all() -> Path:
    """A folder of nobody's, or of whoever runs this, in which all can be read: `a` and `d/b`."""
    folder = Path("/var/tmp") / f"rolecraft-{uuid.uuid4().hex}"  # tmp_path is for its owner only
    (folder / "d").mkdir(parents=True)
    for path in (folder / "a", folder / "d" / "b"):
        path.write_text("old")
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
    return folder


SEVERAL = """
import asyncio, os, sys, time
from rolecraft.sandboxes import Bubblewrap, SandboxSpec
mark, base = sys.argv[1:]
escape = f"import os, time\\nif os.fork() == 0:\\n  os.setsid()\\n  if os.fork() == 0:\\n"
escape += f"    os.execvp('sh', ['sh', '-c', 'sleep 1000; : {mark}'])\\n"
escape += "  os._exit(0)\\ntime.sleep(1000)"
async def main():
    provider = Bubblewrap()
    boxes = [await provider.create(SandboxSpec(base=base)) for _ in range(4)]
    boxes.append(await boxes[0].fork())
    tasks = [asyncio.create_task(box.run(["python3", "-c", escape])) for box in boxes]
    if os.fork() == 0:  # has what Rolecraft has open, and outlives it for a while
        time.sleep(25)
        os._exit(0)
    for box in boxes:
        shell = await box.shell()
        await shell.run(f"head -c 1000000 /dev/zero > f; setsid sh -c 'sleep 1000; : {mark}' &")
    await asyncio.sleep(1000)
asyncio.run(main())
"""


def test_a_kill_9_of_rolecraft_leaves_no_process_no_file_and_no_mount(base: Path) -> None:
    mark = uuid.uuid4().hex
    mounts, temporary = _mounts(), base.parent / "tmp"
    temporary.mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", SEVERAL, mark, str(base)],
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        _wait(lambda: len([p for p in _with(mark) if p != parent.pid]) >= 10, "all of them run")
        keepers = _keepers_of(parent.pid)
        assert keepers
    finally:
        parent.kill()
        parent.wait()
    _wait(lambda: not _with(mark), "nothing of it runs")
    _wait(lambda: not any(_alive(keeper) for keeper in keepers), "its keeper has ended")
    assert _mounts() == mounts
    assert os.listdir(temporary) == []
    assert sorted(os.listdir(base)) == ["a", "d", "link", "private"]


AS_NOBODY = """
import asyncio, sys
from rolecraft.sandboxes import Bubblewrap, SandboxLimits, SandboxSpec
base = sys.argv[1]
async def main():
    provider = Bubblewrap()
    async with await provider.create(SandboxSpec(base=base)) as sandbox:
        shell = await sandbox.shell()
        print((await shell.run("id -u; echo new > a; rm -r d; mkdir d; ls; x=5")).stdout.split())
        print((await shell.run("echo $x; cat a")).stdout.split())
        fork = await sandbox.fork()
        print((await fork.run(["sh", "-c", "cat a; ls d; touch d/x; ls d"])).stdout.split())
        limits = SandboxLimits(memory_bytes=64 * 2**20, seconds=30)
        hog = "import time; x = b'x' * 100_000_000; time.sleep(20)"
        print((await fork.run(["python3", "-c", hog], limits=limits)).failure)
        bomb = "import os, time\\nn = 0\\ntry:\\n  while True:\\n    os.fork() or time.sleep(9)"
        bomb += "; n += 1\\nexcept OSError: print(n)"
        done = await fork.run(["python3", "-c", bomb], limits=SandboxLimits(processes=16))
        print(5 < int(done.stdout) < 16)
asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests of this run are an ordinary user's")
def test_an_ordinary_user_has_all_of_it_too() -> None:
    folder = _for_all()
    try:
        done = _as_nobody("-c", AS_NOBODY, str(folder))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "['1000', 'a', 'd']",
            "['5', 'new']",
            "['new', 'x']",
            "memory",
            "True",
        ]
        assert (folder / "a").read_text() == "old"
    finally:
        subprocess.run(["rm", "-r", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="all tests of this run are an ordinary user's")
def test_an_ordinary_user_passes_the_conformance_kit() -> None:
    kit = Path(__file__).with_name("test_conformance_bubblewrap_live.py")
    done = _as_nobody("-m", "pytest", "-q", "-p", "no:cacheprovider", str(kit))
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


CAN = "os, pytest, rolecraft.sandboxes, sys; sys.exit(not os.access(sys.executable, os.X_OK))"


def _as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Python as nobody: this one, or if it is in a private folder, the system's of its version.

    Skips the test if there is none, or if nobody may not read Rolecraft.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    env = {"PATH": os.defpath, "PYTHONPATH": ":".join(each for each in sys.path if each)}
    for python in (sys.executable, f"/usr/bin/{version}"):
        begin = [*drop, python, "-B"]
        works = subprocess.run(
            [*begin, "-c", f"import {CAN}"],
            cwd=Path(__file__).parents[2],
            env=env,
            capture_output=True,
            check=False,
        )
        if works.returncode == 0:
            return subprocess.run(
                [*begin, *words],
                cwd=Path(__file__).parents[2],
                env=env,
                capture_output=True,
                text=True,
                timeout=500,
                check=False,
            )
    pytest.skip(f"nobody may run no Python of version {version} with Rolecraft here")


async def test_what_it_does_not_have_is_refused() -> None:
    with pytest.raises(SandboxRefused, match="image"):
        await Bubblewrap().create(SandboxSpec(image="debian:12"))


@pytest.mark.slow
async def test_500_are_alive_at_once() -> None:
    provider = Bubblewrap()
    boxes = await asyncio.gather(*(provider.create() for _ in range(500)))
    shells = await asyncio.gather(*(box.shell() for box in boxes))
    done = await asyncio.gather(*(s.run(f"echo {n} > n; cat n") for n, s in enumerate(shells)))
    assert [int(each.stdout) for each in done] == list(range(500))
    await asyncio.gather(*(box.close() for box in boxes))


def _in_memory() -> int:
    """Bytes in page cache and file systems in memory."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such line")


def _mounts() -> list[str]:
    return [line.split(" ", 4)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _processes() -> Iterator[tuple[int, bytes]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(path.parent.name), path.read_bytes()
        except OSError:
            continue  # it has ended meanwhile


def _with(mark: str) -> list[int]:
    """The processes that have `mark` in their command line and are not Python."""
    return [pid for pid, line in _processes() if mark.encode() in line and line[:2] == b"sh"]


def _keepers_of(parent: int) -> list[int]:
    """The keepers that a process has started."""
    found = []
    for pid, line in _processes():
        if b"sandboxes._keeper import" in line and _parent(pid) == parent:
            found.append(pid)
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"not so within 60 s: {what}"
        time.sleep(0.02)


async def _until(holds: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(_wait, holds, what)
