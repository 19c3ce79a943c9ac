"""`LocalProcess.create`: what it says of itself, and what it ends and deletes."""

# ruff: noqa: ASYNC240 - looking at a folder takes no time

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from loguru import logger

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import (
    AllowList,
    LocalProcess,
    SandboxLimits,
    SandboxRefused,
    SandboxSpec,
    local_process,
)
from rolecraft.sandboxes._conformance import processes, until


async def test_it_declares_no_wall_and_says_so_loudly_once() -> None:
    assert LocalProcess().walls == frozenset()
    said: list[str] = []
    local_process._warn_once.cache_clear()
    logger.enable("rolecraft")
    sink = logger.add(said.append, level="WARNING", format="{message}")
    try:
        for _ in range(3):
            await (await LocalProcess().create()).close()
    finally:
        logger.remove(sink)
        logger.disable("rolecraft")
    assert len(said) == 1
    assert "no walls" in said[0]


async def test_what_it_does_not_have_is_refused(tmp_path: Path) -> None:
    for spec, missing in [
        (SandboxSpec(network=AllowList(("example.org",))), ("network",)),
        (SandboxSpec(root=tmp_path), ("root",)),
        (SandboxSpec(image="python:3.11"), ("image",)),
        (SandboxSpec(requires=frozenset(("memory", "disk"))), ("disk", "memory")),
    ]:
        with pytest.raises(SandboxRefused) as caught:
            await LocalProcess().create(spec)
        assert caught.value.missing == missing
        assert "Bubblewrap" in str(caught.value)


async def test_close_finds_what_has_left_its_session_and_its_environment() -> None:
    mark = uuid.uuid4().hex
    async with await LocalProcess().create() as sandbox:
        shell = await sandbox.shell()
        await shell.run(f"(setsid sh -c 'sleep 1000; : {mark} session' &) ")
        await shell.run(f"env -i setsid sh -c 'sleep 1000; : {mark} environment' &")
        await shell.run(f"(cd /; setsid sh -c 'sleep 1000; : {mark} folder' &)")
        await until(lambda: processes(mark) >= 3, "all three run")
    assert processes(mark) == 0


async def test_nothing_is_left_on_disk() -> None:
    before = set(Path("/tmp").glob("rolecraft-*"))
    sandbox = await LocalProcess().create(SandboxSpec(files={"a/b": "x"}))
    await sandbox.run(["sh", "-c", "mkdir -p d/e; touch d/e/f $TMPDIR/t; chmod 0 d/e; chmod 500 d"])
    snapshot = await sandbox.snapshot()
    fork = await sandbox.fork()
    assert len(set(Path("/tmp").glob("rolecraft-*")) - before) >= 3
    for each in (sandbox, snapshot, fork):
        await each.close()
    for folder in (sandbox.folder, fork.folder, str(snapshot.folder)):
        assert not os.path.exists(folder)


async def test_a_sandbox_that_was_forgotten_is_ended() -> None:
    mark = uuid.uuid4().hex
    sandbox = await LocalProcess().create()
    folder = sandbox.folder
    await sandbox.write("x", "")
    await sandbox.run(["sh", "-c", f"setsid sh -c 'sleep 1000; : {mark}' & sleep 0.1"])
    del sandbox
    gc.collect()
    assert processes(mark) == 0
    assert not os.path.exists(folder)


FORGETFUL = """
import asyncio, sys
from rolecraft.sandboxes import LocalProcess
async def main():
    sandbox = await LocalProcess().create()
    shell = await sandbox.shell()
    await shell.run("sh -c 'sleep 1000; : ' " + sys.argv[1] + " &")
    print(sandbox.folder, flush=True)
    raise KeyError("and nobody closes it")
asyncio.run(main())
"""


async def test_a_program_that_ends_by_an_error_leaves_nothing() -> None:
    mark = uuid.uuid4().hex
    words = [sys.executable, "-X", "dev", "-W", "error", "-c", FORGETFUL, mark]
    done = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, check=False
    )
    assert "and nobody closes it" in done.stderr
    assert "destroyed" not in done.stderr
    await until(lambda: processes(mark) == 0, "nothing is left running")
    assert not os.path.exists(done.stdout.strip())


async def test_no_descriptor_is_left_open() -> None:
    async def use() -> None:
        async with await LocalProcess().create() as sandbox:
            shells = [await sandbox.shell() for _ in range(3)]
            await shells[0].run("sleep 10", seconds=0.01)
            await shells[1].run("exit 1")
            await sandbox.run(["true"])
            with pytest.raises(SandboxError):
                await sandbox.shell(env={"PATH": "/nowhere"})
            await (await sandbox.fork()).close()

    await use()
    before = set(os.listdir("/proc/self/fd"))
    await use()
    assert set(os.listdir("/proc/self/fd")) == before


async def test_ports_are_those_of_this_machine() -> None:
    async with await LocalProcess().create(SandboxSpec(ports=(45678,))) as sandbox:
        assert await sandbox.endpoint(45678) == "127.0.0.1:45678"
        with pytest.raises(UsageError, match="45678"):
            await sandbox.endpoint(80)


async def test_a_line_costs_less_than_a_millisecond_and_leaves_the_loop_free() -> None:
    async with await LocalProcess().create() as sandbox:
        shell = await sandbox.shell()
        await shell.run("true")
        cpu = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(200):
                await shell.run("true")
            cpu.append((time.process_time() - began) / 200)
        assert min(cpu) < 0.001, "seconds of our own processor time; 0.1 ms on a quiet machine"
        turns = []
        for _ in range(5):  # a collection of garbage falls into some
            running = asyncio.create_task(shell.run("head -c 300000000 /dev/zero", seconds=60))
            longest, last = 0.0, time.thread_time()
            while not running.done():
                await asyncio.sleep(0)
                now = time.thread_time()
                longest, last = max(longest, now - last), now
            assert (await running).stdout_truncated
            turns.append(longest)
            if longest < 0.02:
                break
        assert min(turns) < 0.02, "one turn of the loop reads no more than a pipe holds"


async def test_a_group_of_shells_starts_from_one_prepared_folder(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("0")
    async with await LocalProcess().create(SandboxSpec(base=tmp_path)) as sandbox:
        snapshot = await sandbox.snapshot()
        forks = await asyncio.gather(*(snapshot.create() for _ in range(8)))
        shells = await asyncio.gather(*(fork.shell() for fork in forks))
        lines = [shell.run(f"echo {n} >> f; cat f") for n, shell in enumerate(shells)]
        assert [each.stdout for each in await asyncio.gather(*lines)] == [
            f"0{n}\n" for n in range(8)
        ]
        await asyncio.gather(*(fork.close() for fork in forks))
        await snapshot.close()
    assert (tmp_path / "f").read_text() == "0"


async def test_limits_of_the_kernel_hold_in_shells_too() -> None:
    limits = SandboxLimits(file_bytes=1000, memory_bytes=100 * 2**20)
    async with await LocalProcess().create(SandboxSpec(limits=limits)) as sandbox:
        shell = await sandbox.shell()
        assert (await shell.run("head -c 5000 /dev/zero > big")).exit_code != 0
        assert len(await sandbox.read("big")) == 1000
        done = await shell.run('python3 -c "bytearray(10**9)"')
        assert "MemoryError" in done.stdout
