"""What is bubblewrap's alone: who it runs as, what it dies with, and how it says that it cannot."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import Bubblewrap, SandboxLimits
from rolecraft.sandboxes import bubblewrap as module


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


async def test_where_user_namespaces_are_forbidden_the_error_says_what_bwrap_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuses = tmp_path / "bwrap"
    refuses.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1"
    )
    refuses.chmod(0o755)
    monkeypatch.setattr(module, "_as_nobody", list)
    which = module.shutil.which
    monkeypatch.setattr(
        module.shutil, "which", lambda name: str(refuses) if name == "bwrap" else which(name)
    )
    with pytest.raises(SandboxError, match=r"No permissions to create.*user namespaces.*LocalP"):
        await Bubblewrap().run(["true"])


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
async def test_a_missing_readable_folder_is_an_error_of_the_sandbox() -> None:
    with pytest.raises(SandboxError, match="/no/such/folder"):
        await Bubblewrap(readable=["/no/such/folder"]).run(["true"])


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


@pytest.mark.usefixtures("_bwrap")
async def test_a_run_that_is_cancelled_while_bwrap_sets_up_leaves_nothing() -> None:
    """`bwrap` gives its child a session of its own before it binds the child's life to its own.

    Killed in between, with its group, it left a sandbox behind that ran for ever: 40 of 300.
    """
    mark = uuid.uuid4().hex
    chance = random.Random(1)
    for _ in range(40):
        run = asyncio.create_task(Bubblewrap().run(["sh", "-c", f"sleep 1000; : {mark}"]))
        await asyncio.sleep(chance.uniform(0.002, 0.012))  # anywhere in there
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
    _until(lambda: not _inside(mark), "nothing of it is left")


AS_NOBODY = """
import asyncio, encodings.idna, os
from rolecraft.sandboxes import Bubblewrap, SandboxLimits
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
os.chdir("/")
async def main():
    bomb = "import os, time\\nn = 0\\ntry:\\n  while True:\\n    n += 1\\n"
    bomb += "    os.fork() or time.sleep(9)\\nexcept OSError: print(n)"
    few = SandboxLimits(processes=16)
    for command, limits in [
        (["sh", "-c", "id -u; cat /etc/passwd"], SandboxLimits()),
        (["python3", "-c", bomb], few),
        (["sleep", "60"], SandboxLimits(seconds=0.2)),
    ]:
        done = await Bubblewrap().run(command, limits=limits)
        print(done.exit_code, done.timed_out, done.stdout.strip(), flush=True)
asyncio.run(main())
"""


@pytest.mark.usefixtures("_bwrap")
@pytest.mark.skipif(os.geteuid() != 0, reason="all tests of this run are an ordinary user's")
def test_it_works_for_an_ordinary_user_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "1 False 1000"
    exit_code, _, made = second.split()
    assert exit_code == "0"
    assert 5 < int(made) < 16
    assert third.split() == ["137", "True"]


@pytest.mark.usefixtures("_bwrap")
async def test_what_a_role_reads_of_a_run_is_the_same_every_time() -> None:
    limits = SandboxLimits(seconds=0.2, output_bytes=10)
    texts = {
        str(await Bubblewrap().run(["sh", "-c", "echo 0123456789abc; sleep 60"], limits=limits))
        for _ in range(2)
    }
    assert texts == {"0123456789\n[stdout cut off here]\n[stopped: out of time]"}
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


def _until(holds, what: str) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, f"not so within 20 s: {what}"
