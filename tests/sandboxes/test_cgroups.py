"""Groups of processes hold their limits in the kernel, and none is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rolecraft.sandboxes import _cgroups
from rolecraft.sandboxes._cgroups import Group, Place, create, enter, find_places, sweep

MIB = 2**20
PROGRAM = Path(_cgroups.__file__)
unheld = pytest.mark.skipif(not find_places(), reason=_cgroups.reason())
root = pytest.mark.skipif(os.geteuid() != 0, reason="wants root")


@contextlib.contextmanager
def group(**limits: float) -> Iterator[Group]:
    made = create(**limits)  # type: ignore[arg-type]
    assert made is not None
    try:
        yield made
    finally:
        assert made.remove()
        assert not any(os.path.exists(folder.path) for folder in made.folders)


def inside(made: Group, *command: str) -> subprocess.Popen[bytes]:
    """A program in the group."""
    return subprocess.Popen(
        command, preexec_fn=made.enter, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def python(made: Group, code: str) -> subprocess.Popen[bytes]:
    return inside(made, sys.executable, "-I", "-S", "-c", code)


@unheld
def test_one_process_that_takes_too_much_memory_is_killed_and_counted() -> None:
    with group(memory_bytes=64 * MIB) as made:
        assert made.oom_kills() == 0
        assert python(made, "b'x' * (32 << 20)").wait() == 0
        assert made.oom_kills() == 0
        assert python(made, "b'x' * (256 << 20)").wait() == -signal.SIGKILL
        assert made.oom_kills() == 1


@unheld
def test_memory_is_counted_for_all_processes_together() -> None:
    take = "import time; x = b'x' * (20 << 20); time.sleep(60)"
    with group(memory_bytes=64 * MIB) as made:
        several = [python(made, take) for _ in range(5)]
        until(lambda: made.oom_kills() > 0, "one of them is killed")
        made.kill()
        for one in several:
            assert one.wait() == -signal.SIGKILL


@unheld
def test_processes_are_counted_for_all_together() -> None:
    code = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0: time.sleep(60)
        made += 1
except OSError: os._exit(made)
"""
    with group(processes=12) as made:
        assert python(made, code).wait() == 11


@unheld
def test_a_group_gets_its_share_of_the_processors_and_no_more() -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass"
    with group(cpus=0.25) as made:
        if "cpu" not in made.held:
            pytest.skip("this group cannot limit processors")
        began = time.monotonic()
        assert python(made, code).wait() == 0
        assert time.monotonic() - began > 0.8


@unheld
def test_kill_ends_a_fork_bomb_that_leaves_no_process_alive_for_long() -> None:
    """Each process makes the next and ends: whoever kills by lists is always too late."""
    chain = "import os, time\nwhile True:\n  if os.fork(): os._exit(0)\n  os.setsid()"
    with group(memory_bytes=512 * MIB) as made:
        for _ in range(5):
            python(made, chain).wait()
        until(lambda: bool(made.pids()), "the chains go on")
        assert made.kill()
        assert made.pids() == []


@unheld
@root
def test_doors_let_a_process_in_that_has_no_rights_any_more() -> None:
    with group(processes=5) as made:
        doors = made.doors()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                enter(doors)
                code = 0 if os.getpid() in made.pids() else 2
            finally:
                os._exit(code)
        for door in doors:
            os.close(door)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@root
def test_who_may_not_make_groups_gets_none_and_a_reason() -> None:
    code = f"""
import os, sys; sys.path.insert(0, {str(PROGRAM.parent)!r})
import _cgroups
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
print(_cgroups.create(memory_bytes=1), _cgroups.reason())
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert "None this process may not make control groups" in done.stdout, done.stderr


@unheld
def test_the_group_of_a_maker_that_was_killed_is_taken_away_with_what_runs_in_it() -> None:
    code = f"""
import os, sys, time; sys.path.insert(0, {str(PROGRAM.parent)!r})
import _cgroups
made = _cgroups.create(processes=9)
child = os.fork()
if child == 0:
    made.enter(); os.setsid(); print(os.getpid(), flush=True); time.sleep(600)
time.sleep(600)
"""
    with (
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, text=True
        ) as maker,
        group(processes=5) as mine,
    ):
        assert maker.stdout is not None
        child = int(maker.stdout.readline())
        folders = [f for place in find_places() for f in Path(place.path).glob(f"*-{maker.pid}-*")]
        assert folders
        sweep(find_places())
        assert all(folder.exists() for folder in folders), "its maker lives"
        maker.kill()
        maker.wait()
        assert Path(f"/proc/{child}").exists()
        sweep(find_places())
        assert not any(folder.exists() for folder in folders)
        until(lambda: state(child) in ("", "Z"), "what ran in it is killed")
        assert all(Path(folder.path).exists() for folder in mine.folders), "others' groups stay"


def test_groups_of_other_containers_are_left_alone(tmp_path: Path) -> None:
    """Process numbers mean nothing in another namespace of them."""
    for name in ("rolecraft-1-99999999-5-abcd", "rolecraft-odd", "another"):
        (tmp_path / name).mkdir()
    assert sweep([Place(str(tmp_path), 1, frozenset({"pids"}))]) == 0
    assert len(list(tmp_path.iterdir())) == 3


def test_version_2_is_told_the_same_in_its_own_words(tmp_path: Path) -> None:
    """Files in a plain folder: this machine may have its controllers under version 1."""
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
        (tmp_path / name).write_text("max\n")
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n")
    made = Group([Place(str(tmp_path), 2, frozenset({"memory", "pids", "cpu"}))])
    made.limit(memory_bytes=5 * MIB, processes=7, cpus=1.5)
    words = {file.name: file.read_text() for file in tmp_path.glob("*.max")}
    assert words == {
        "memory.max": str(5 * MIB),
        "memory.swap.max": "0",
        "pids.max": "7",
        "cpu.max": "150000 100000",
    }
    assert made.oom_kills() == 1


def _v2_mount() -> str | None:
    return next((mounted for version, *_, mounted in _cgroups._mounts() if version == 2), None)


@root
@pytest.mark.skipif(_v2_mount() is None, reason="no cgroup version 2 is mounted")
def test_version_2_moves_kills_and_removes() -> None:
    """What needs no controller, with the kernel's own files."""
    mounted = _v2_mount()
    assert mounted is not None
    folder = Path(mounted, f"rolecraft-test-{os.getpid()}")
    folder.mkdir()
    made = Group([Place(str(folder), 2, frozenset())])
    sleeper = inside(made, "sleep", "600")
    assert made.pids() == [sleeper.pid]
    assert made.remove()
    assert sleeper.wait() == -signal.SIGKILL
    assert not folder.exists()
    assert made.remove(), "a second time does no harm"


@unheld
def test_limits_can_be_raised_and_lowered() -> None:
    with group(memory_bytes=64 * MIB) as made:
        for size in (128 * MIB, 32 * MIB, 256 * MIB):
            made.limit(memory_bytes=size)
        assert python(made, "b'x' * (200 << 20)").wait() == 0


def state(pid: int) -> str:
    """The letter of its state; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"not so within 60 s: {what}"
        time.sleep(0.01)
