"""What is bubblewrap's alone: who it runs as, what it dies with, and how it says that it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import (
    Bubblewrap,
    SandboxLimits,
    SandboxRefused,
    SandboxSpec,
    _keeper_provider,
)
from rolecraft.sandboxes import bubblewrap as module
from rolecraft.sandboxes.live import EVERY_WALL


@pytest.fixture
def _bwrap(needs_program) -> None:
    needs_program("bwrap", package="bubblewrap")


async def test_without_bwrap_one_error_names_the_package_and_the_choice_of_no_walls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never silently a plain process."""
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(SandboxError, match=r"apt install bubblewrap.*LocalProcess") as raised:
        await Bubblewrap().run(["touch", "/tmp/it-ran"])
    assert "`bwrap` is not installed" in str(raised.value)


async def test_where_bwrap_fails_the_error_says_what_it_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path("/var/tmp") / f"rolecraft-{uuid.uuid4().hex}"  # tmp_path is for its owner only
    folder.mkdir()
    try:
        refuses = folder / "bwrap"
        refuses.write_text(
            "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1"
        )
        refuses.chmod(0o755)
        monkeypatch.setattr(module.shutil, "which", lambda name: str(refuses))
        with pytest.raises(SandboxError, match=r"No permissions to create.*user namespaces.*Loca"):
            await Bubblewrap().run(["true"])
    finally:
        shutil.rmtree(folder)


FORBIDDEN = """
import asyncio
from rolecraft.errors import SandboxError
from rolecraft.sandboxes import Bubblewrap
with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
try:
    asyncio.run(Bubblewrap().run(["true"]))
except SandboxError as error:
    print(error)
"""


@pytest.mark.usefixtures("_bwrap")
def test_where_user_namespaces_are_forbidden_the_error_names_them_and_the_choice() -> None:
    """In a user namespace of its own, which allows none below it."""
    done = subprocess.run(
        ["unshare", "-Ur", sys.executable, "-c", FORBIDDEN],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "could not be made" in done.stdout, done.stderr
    assert "user namespaces" in done.stdout
    assert "LocalProcess()" in done.stdout


@pytest.mark.usefixtures("_bwrap")
async def test_readable_folders_can_be_read_and_not_written(tmp_path: Path) -> None:
    folder = Path("/var/tmp") / f"rolecraft-{uuid.uuid4().hex}"  # tmp_path is for its owner only
    folder.mkdir()
    try:
        (folder / "data.txt").write_text("hello")
        sandbox = Bubblewrap(readable=[folder])
        done = await sandbox.run(["sh", "-c", "cat $0/data.txt; echo x > $0/new", str(folder)])
        assert done.stdout == "hello"
        assert "Read-only" in done.stderr
    finally:
        (folder / "data.txt").unlink()
        folder.rmdir()


@pytest.mark.usefixtures("_bwrap")
async def test_a_missing_readable_folder_is_named_and_nothing_else_is_blamed() -> None:
    with pytest.raises(UsageError, match="/no/such/folder") as error:
        await Bubblewrap(readable=["/no/such/folder"]).run(["true"])
    assert "namespaces" not in str(error.value)
    with pytest.raises(UsageError, match="/no/such/other"):
        await Bubblewrap().create(SandboxSpec(readable=("/no/such/other",)))


@pytest.mark.usefixtures("_bwrap")
def test_nothing_is_left_when_the_parent_is_killed_with_9() -> None:
    mark = uuid.uuid4().hex
    code = (
        "import asyncio; from rolecraft.sandboxes import Bubblewrap; "
        f"asyncio.run(Bubblewrap().run(['sh', '-c', 'setsid sleep 1000 & sleep 1000; : {mark}']))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    _until(lambda: _inside(mark), "the command runs")
    parent.kill()
    parent.wait()
    _until(lambda: not _inside(mark), "nothing of it is left")


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.usefixtures("_bwrap")
async def test_a_run_that_is_cancelled_at_any_moment_leaves_nothing(warm: bool) -> None:
    """While the keeper starts, while the sandbox is made, while it runs, while it is closed."""
    mark = uuid.uuid4().hex
    chance = random.Random(1)
    before, sandbox = _children(), Bubblewrap()
    if warm:
        await sandbox.run(["true"])
    for _ in range(40):
        if not warm:
            sandbox = Bubblewrap()
        run = asyncio.create_task(sandbox.run(["sh", "-c", f"sleep 1000; : {mark}"]))
        await asyncio.sleep(chance.uniform(0.0, 0.05 if warm else 0.2))  # anywhere in there
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
    del run
    _until(lambda: not _inside(mark), "nothing of it is left")
    assert (await sandbox.run(["echo", "fine"])).stdout == "fine\n"
    del sandbox
    gc.collect()
    _until(lambda: not _children() - before, "no keeper is left")


LOOPS = """
import asyncio, gc, os, sys, threading, time, warnings
from pathlib import Path
from rolecraft.sandboxes import Bubblewrap
def keepers():
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.append(int(path.parent.name))
    return found
def until(number):
    deadline = time.monotonic() + 60
    while len(keepers()) != number:
        assert time.monotonic() < deadline, (keepers(), number)
        time.sleep(0.01)
def once(word):
    done = asyncio.run(sandbox.run(["echo", word]))
    assert done.stdout == word + "\\n", done
sandbox = Bubblewrap()
once("first")
once("second")
until(1)
words = ["third", "fourth", "fifth"]
told = []
def several(word):
    for _ in range(5):
        once(word)
    told.append(word)
threads = [threading.Thread(target=several, args=[word]) for word in words]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(told) == sorted(words), told
once("sixth")
until(1)
if sys.argv[1] == "dropped":
    del sandbox
    until(0)
print(*keepers(), flush=True)
"""


@pytest.mark.usefixtures("_bwrap")
@pytest.mark.parametrize("end", ["dropped", "at exit"])
def test_one_object_serves_loops_one_after_the_other_and_threads_and_leaves_nothing(
    end: str,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", LOOPS, end],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, ""), "no warning, such as of an open socket"
    keepers = out.split()
    assert len(keepers) == (end == "at exit")
    _until(lambda: not any(Path("/proc", pid).exists() for pid in keepers), "its keeper has ended")


def test_without_a_control_group_it_does_not_declare_that_it_holds_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Watching cannot: what is in files in memory, or in pipes, is in no process."""
    monkeypatch.setattr(module._cgroups, "find_places", list)
    assert Bubblewrap().walls == EVERY_WALL - {"memory"}
    everywhere = [module._cgroups.Place("/", 2, frozenset({"memory", "pids"}))]
    monkeypatch.setattr(module._cgroups, "find_places", lambda: everywhere)
    assert Bubblewrap().walls == EVERY_WALL


async def test_without_a_control_group_a_spec_that_requires_memory_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module._cgroups, "find_places", list)
    with pytest.raises(SandboxRefused, match=r"control group.*Delegate=yes") as refused:
        await Bubblewrap().create(SandboxSpec(requires=frozenset({"memory", "disk"})))
    assert refused.value.missing == ("memory",)


@pytest.mark.usefixtures("_bwrap")
async def test_a_group_that_cannot_be_made_after_all_is_a_refusal_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nowhere = [module._cgroups.Place("/proc/no/such/folder", 2, frozenset({"memory"}))]
    monkeypatch.setattr(module._cgroups, "find_places", lambda: nowhere)
    monkeypatch.setattr(_keeper_provider, "find_places", lambda: nowhere)
    spec = SandboxSpec(requires=frozenset({"memory"}))
    provider = Bubblewrap()
    with pytest.raises(SandboxRefused, match="could not be made"):
        await provider.create(spec)
    assert (await provider.run(["echo", "watched"])).stdout == "watched\n"


@pytest.mark.usefixtures("_bwrap")
async def test_processes_are_counted_over_all_commands_without_a_control_group_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not with those of another sandbox, though both are the same user's outside."""
    monkeypatch.setattr(_keeper_provider, "find_places", list)
    bomb = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        made += 1
except OSError: pass
print(made, flush=True); time.sleep(2)
"""
    provider = Bubblewrap()
    spec = SandboxSpec(limits=SandboxLimits(seconds=30, processes=20), files={"bomb.py": bomb})
    async with await provider.create(spec) as first, await provider.create(spec) as second:
        runs = [box.run(["python3", "-I", "bomb.py"]) for box in (first, first, second)]
        one, other, alone = [int(done.stdout) for done in await asyncio.gather(*runs)]
    assert 10 < one + other <= 20, "two commands of one sandbox share what it may have"
    assert 10 < alone <= 20, "another sandbox has as many"


AS_NOBODY = """
import asyncio, concurrent.futures.thread, encodings.idna, os, sys
from rolecraft.sandboxes import Bubblewrap, SandboxLimits
sys.executable = sys.argv[1]
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
os.chdir("/")
async def main():
    bomb = "import os, time\\nn = 0\\ntry:\\n  while True:\\n    n += 1\\n"
    bomb += "    os.fork() or time.sleep(9)\\nexcept OSError: print(n)"
    few = SandboxLimits(processes=16)
    provider = Bubblewrap()
    print(sorted(provider.walls))
    for command, limits in [
        (["sh", "-c", "id -u; cat /etc/passwd"], SandboxLimits()),
        (["python3", "-c", bomb], few),
        (["sleep", "60"], SandboxLimits(seconds=0.2)),
    ]:
        done = await provider.run(command, limits=limits)
        print(done.exit_code, done.timed_out, done.stdout.strip(), flush=True)
asyncio.run(main())
"""


@pytest.mark.usefixtures("_bwrap")
@pytest.mark.skipif(os.geteuid() != 0, reason="all tests of this run are an ordinary user's")
def test_it_works_for_an_ordinary_user_too() -> None:
    """The keeper is a Python that this user may run: the tests' own can be in a private folder."""
    reachable = all(folder.stat().st_mode & 1 for folder in Path(sys.executable).resolve().parents)
    python = sys.executable if reachable else "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip("no Python for everybody")
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, python],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    walls, first, second, third = done.stdout.splitlines()
    assert walls == str(sorted(EVERY_WALL - {"memory"}))
    assert first == "1 False 1000"
    exit_code, _, made = second.split()
    assert exit_code == "0"
    assert 5 < int(made) < 16
    assert third.split() == ["137", "True"]


@pytest.mark.usefixtures("_bwrap")
async def test_what_a_role_reads_of_a_run_is_the_same_every_time() -> None:
    limits = SandboxLimits(seconds=3, output_bytes=10)
    texts = {
        str(await Bubblewrap().run(["sh", "-c", "echo 0123456789abc; sleep 60"], limits=limits))
        for _ in range(2)
    }
    assert texts == {"01234\n[... 4 bytes left out ...]\n9abc\n[stopped: out of time]"}
    assert str(await Bubblewrap().run(["sh", "-c", "echo a; exit 3"])) == "a\n[exit code 3]"


def _inside(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"sh" and any(mark.encode() in word for word in words):
            return True
    return False


def _children() -> set[int]:
    """Processes that this one has started and that are still there."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found


def _until(holds, what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"not so within 60 s: {what}"
