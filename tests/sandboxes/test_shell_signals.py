"""A shell whose signals come late, as through other processes or a network, on a real bash."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rolecraft.sandboxes._local_started import LocalStarted
from rolecraft.sandboxes._shell import PATIENCE, PipedShell, start_shell

LATE = 0.6 * PATIENCE


class Late(LocalStarted):
    """Signals arrive `LATE` seconds after they are sent."""

    def signal(self, number: int) -> None:
        asyncio.get_running_loop().call_later(LATE, super().signal, number)


class Starter:
    async def start(
        self, argv: Sequence[str], *, cwd: str = "", env: Mapping[str, str] = {}
    ) -> LocalStarted:
        return Late(argv, cwd=Path(cwd or "/"), env={"PATH": os.defpath, **env})


async def says(shell: PipedShell, line: str, output: str) -> None:
    done = await shell.run(line, seconds=20)
    assert (done.stdout, done.exit_code) == (output, 0)


async def test_an_interrupt_that_comes_after_its_line_has_ended_strikes_none_of_the_next() -> None:
    shell = await start_shell(Starter())
    try:
        for _ in range(5):
            done, _ = await asyncio.gather(shell.run("echo quick"), shell.interrupt())
            assert done.stdout == "quick\n"
            await says(shell, "sleep 0.05; echo on", "on\n")
    finally:
        await shell.close()


async def test_signals_of_a_stop_that_come_late_strike_none_of_the_next_line() -> None:
    shell = await start_shell(Starter())
    try:
        stubborn = "trap 'sleep 0.1; trap - INT' INT; sleep 1; sleep 1"
        for _ in range(3):
            assert (await shell.run(stubborn, seconds=0.2)).timed_out
            await says(shell, "trap - INT; sleep 0.05; echo on", "on\n")
    finally:
        await shell.close()


async def test_an_interrupt_while_signals_are_waited_for_is_of_the_line_to_come() -> None:
    shell = await start_shell(Starter())
    try:
        await asyncio.gather(shell.run("echo quick"), shell.interrupt())
        running = asyncio.create_task(shell.run("sleep 100"))
        await asyncio.sleep(0)
        await shell.interrupt()
        done = await asyncio.wait_for(running, 60)
        assert done.exit_code == 130
        assert not done.timed_out
    finally:
        await shell.close()
