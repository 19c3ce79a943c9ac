"""Attacks on the machine: all of its memory, disk and processes, and what stays behind."""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import shutil
import time
from pathlib import Path

import pytest

from rolecraft.sandboxes.base import MIB, SandboxLimits


async def still_works(attacker) -> None:
    """The sandbox, or the next one, answers."""
    assert (await attacker.sh("echo fine")).stdout == "fine\n"


async def test_a_fork_bomb(attacker) -> None:
    """Each process makes two: some hundred thousand within a second."""
    attacker.needs("count")
    mark, limits = secrets.token_hex(8), SandboxLimits(seconds=3, processes=40)
    most = 0

    async def count() -> None:
        nonlocal most
        while True:
            await asyncio.sleep(0.02)
            most = max(most, await asyncio.to_thread(_count, mark))

    counting = asyncio.create_task(count())
    code = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    try:
        await attacker.python(code, mark, limits=limits)
    finally:
        counting.cancel()
    assert 2 <= most <= 43, "with what started it, which has the mark in its command line, too"
    await still_works(attacker)
    await attacker.end()
    await asyncio.to_thread(_until_gone, mark)


async def test_a_thread_bomb(attacker) -> None:
    """Threads are processes to the kernel, and so they are counted."""
    attacker.needs("count")
    code = """
import threading, time
try:
    for made in range(2000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError: pass
print(made); import os, sys; sys.stdout.flush(); os._exit(0)
"""
    done = await attacker.python(code, limits=SandboxLimits(seconds=20, processes=40))
    assert 5 < int(done.stdout) < 40


async def test_one_large_allocation(attacker) -> None:
    """More memory than the machine has, at once and page by page."""
    attacker.needs("memory")
    limits = SandboxLimits(seconds=20, memory_bytes=64 * MIB)
    done = await attacker.python("x = bytearray(2**40)", limits=limits)
    assert "MemoryError" in done.stdout + done.stderr
    code = "x = []\nwhile True: x.append(b'x' * 2**20)"
    done = await attacker.python(code, limits=limits)
    assert done.exit_code != 0
    if not attacker.way.endswith("shell"):
        assert done.killed_for_memory or "MemoryError" in done.stderr
    await still_works(attacker)


async def test_many_processes_that_take_a_little_memory_each(attacker) -> None:
    """None of them is above its limit; all together are."""
    attacker.needs("memory")
    # A shell's line goes on without those that are killed, until its time is over.
    seconds = 8 if attacker.way.endswith("shell") else 60
    limits = SandboxLimits(seconds=seconds, memory_bytes=96 * MIB)
    code = """
import os, time
for _ in range(20):
    if os.fork() == 0: x = b"x" * (16 << 20); time.sleep(600); os._exit(0)
for _ in range(20): os.wait()
"""
    done = await attacker.python(code, limits=limits)
    if not attacker.way.endswith("shell"):
        assert done.failure == "memory", "and not its time"
    await still_works(attacker)


async def test_memory_that_no_process_has(attacker) -> None:
    """Files in memory, and pipes: nobody's resident set grows."""
    attacker.needs("memory")
    limits = SandboxLimits(seconds=20, memory_bytes=64 * MIB, file_bytes=10**9, disk_bytes=32 * MIB)
    code = """
import os, sys
total = 0
try:
    while total < 1 << 30:
        fd = os.memfd_create("x")
        for _ in range(8): total += os.write(fd, b"x" * (1 << 20))
except OSError as error: pass
print(total)
"""
    done = await attacker.python(code, limits=limits)
    assert done.stdout in ("", "Killed\n") or int(done.stdout.split()[0]) < 64 * MIB, done
    await still_works(attacker)


@pytest.mark.parametrize("place", [".", "/tmp", "/dev/shm", "/var/tmp", "/run/user"])
async def test_a_full_disk(attacker, place: str) -> None:
    """One file after the other, in every folder that may be written."""
    attacker.needs("disk")
    limits = SandboxLimits(seconds=20, disk_bytes=16 * MIB, file_bytes=4 * MIB)
    fill = f"cd {place} && for i in $(seq 64); do head -c 1000000 /dev/zero > $i || exit 9; done"
    free = shutil.disk_usage("/var/tmp").free
    done = await attacker.sh(fill, limits=limits)
    assert done.exit_code in (1, 2, 9)
    assert free - shutil.disk_usage("/var/tmp").free < 2**30


async def test_one_large_file(attacker) -> None:
    """A file has a largest size everywhere, also where the disk is not counted."""
    limits = SandboxLimits(seconds=20, file_bytes=MIB)
    code = """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for place in (".", "/tmp", os.environ.get("TMPDIR", ".")):
    try:
        with open(place + "/big", "wb", buffering=0) as file:
            for _ in range(64): file.write(bytes(1 << 20))
    except OSError: pass
    try: print(os.path.getsize(place + "/big") <= 1 << 20)
    except OSError: print(True)
"""
    assert (await attacker.python(code, limits=limits)).stdout == "True\n" * 3


async def test_millions_of_empty_files(attacker) -> None:
    """They have no size: inodes, or the memory for them, are what runs out."""
    attacker.needs("disk")
    limits = SandboxLimits(seconds=30, disk_bytes=4 * MIB, cpu_seconds=30)
    code = """
import itertools, sys
try:
    for number in itertools.count():
        if number == 50_000: break
        open(f"{number:060}", "w").close()
except OSError: pass
print(number)
"""
    done = await attacker.python(code, limits=limits)
    assert done.failure or int(done.stdout) < 50_000


@pytest.mark.slow
async def test_a_gigabyte_of_output(attacker) -> None:
    """It is counted and thrown away: neither Rolecraft's memory nor its time goes with it."""
    limits = SandboxLimits(seconds=60, cpu_seconds=60, output_bytes=100_000)
    line = "for i in $(seq 16); do head -c 67108864 /dev/zero; head -c 67108864 /dev/zero >&2; done"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await attacker.sh(line + "; printf end", limits=limits)
    assert len(done.stdout) < 110_000
    assert len(done.stderr) < 110_000
    assert done.stdout_truncated
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


STAY = {
    "in the background": "sleep 600 {mark} &",
    "nohup": "nohup sleep 600 {mark} > /dev/null 2>&1 &",
    "setsid": "setsid sleep 600 {mark} &",
    "a double fork": "(setsid sh -c 'sleep 600 {mark} & exit' &)",
    "deaf": "setsid sh -c 'trap \"\" HUP INT TERM QUIT USR1; sleep 600 {mark}; sleep {mark}' &",
    "stopped": "(sleep 600 {mark} & kill -STOP $!) &",
    "without files": "setsid sh -c 'exec <&- >&- 2>&-; cd /; sleep 600 {mark}' &",
    "disowned": "bash -c 'sleep 600 {mark} & disown -a; exec -a other sleep 0'",
}


@pytest.mark.parametrize("how", STAY)
async def test_what_wants_to_stay_when_its_command_ends(attacker, how: str) -> None:
    """A server, a miner, or what waits until the grading begins."""
    attacker.needs("survivors")
    mark = f"6{secrets.randbelow(10**9):09}"
    done = await attacker.sh(STAY[how].format(mark=f"{mark}") + "\nsleep 0.1")
    assert not done.timed_out
    if attacker.way.endswith("shell"):
        await attacker.end()  # a shell's background processes live as long as it
    await asyncio.to_thread(_until_gone, mark)


async def test_a_daemon(attacker) -> None:
    """By the book: two forks, a session, no folder, no files, no environment, another name."""
    attacker.needs("survivors")
    mark = secrets.token_hex(8)
    code = f"""
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/"); os.closerange(0, 4096)
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        words = ["{mark}", "-c", "import time; time.sleep(600)"]
        os.execvpe("python3", words, {{"PATH": os.defpath}})
    os._exit(0)
os.wait(); time.sleep(0.2)
"""
    await attacker.python(code)
    if attacker.way.endswith("shell"):
        await attacker.end()
    await asyncio.to_thread(_until_gone, mark)


async def test_what_keeps_the_output_open(attacker) -> None:
    """Whoever reads to the end of a pipe waits for the last process that has it."""
    attacker.needs("survivors")
    began = time.monotonic()
    done = await attacker.sh("setsid sleep 600 & echo done")
    assert done.stdout == "done\n"
    assert time.monotonic() - began < 60


async def test_a_command_that_kills_all_it_can(attacker) -> None:
    """What looks after it is not among them."""
    done = await attacker.sh("kill -9 -1; kill -9 1 $PPID; echo lives")
    # Where it can kill itself it ends anywhere, also in the middle of what it prints.
    assert done.stdout.endswith("lives\n") or (not done.ok and "lives" not in done.stdout)
    assert os.getpid() > 0, "so does this process"
    await attacker.end()
    await still_works(attacker)


async def test_terminal_codes_in_the_output_are_data(attacker) -> None:
    """Titles, colours, a cleared screen, answers that are typed in: for a terminal to obey."""
    codes = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x1b[6n\x1bP$q\x1b\\\x9b5m\r\b\x07"
    done = await attacker.python(f"print({codes!r}, end='')")
    assert done.stdout == codes
    assert codes in str(done)


def _count(mark: str) -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        found += mark.encode() in line and not line.startswith((b"sh\0", b"/bin/sh\0"))
    return found


def _until_gone(mark: str) -> None:
    deadline = time.monotonic() + 60
    while _count(mark):
        assert time.monotonic() < deadline, f"not gone within 60 s: {mark}"
        time.sleep(0.01)
