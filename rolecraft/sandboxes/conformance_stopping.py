"""How a shell's line is stopped. See `conformance_live`."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from unittest import SkipTest

from rolecraft.sandboxes._conformance import LiveConformance, raises, says
from rolecraft.sandboxes.live import SandboxLost

STUBBORN = (
    "python3 -c 'import signal, time\n"
    "for number in (2, 3, 15): signal.signal(number, signal.SIG_IGN)\n"
    'print("begun", flush=True); time.sleep(100)\''
)
"""A line that only SIGKILL can end."""


class ShellStoppingConformance(LiveConformance):
    """Interrupts, time-outs, cancellation."""

    async def test_an_interrupt_ends_the_line_and_not_the_shell(self) -> None:
        async with self.shell() as shell:
            await shell.run("kept=1")
            for line in (
                "echo begun; sleep 100; echo not here",
                "echo begun; while true; do sleep 1; done",
                "echo begun; while true; do :; done",
                "echo begun; sleep 100 | cat | cat",
                "f() { sleep 100; echo not here; }; echo begun; f; echo not here",
                "echo begun; x=$(sleep 100); echo not here",
                "echo begun; (sleep 100; echo not here)",
            ):
                running = asyncio.create_task(shell.run(line))
                await asyncio.sleep(0.3)
                await shell.interrupt()
                done = await asyncio.wait_for(running, 10)
                assert (done.stdout, done.exit_code) == ("begun\n", 130), (line, done)
                assert not done.timed_out
            await says(shell, "echo $kept", "1\n")

    async def test_what_handles_an_interrupt_does_so(self) -> None:
        async with self.shell() as shell:
            code = "import time\ntry: time.sleep(100)\nexcept KeyboardInterrupt: print('tidied')"
            running = asyncio.create_task(shell.run(f'python3 -c "{code}"'))
            await asyncio.sleep(0.5)
            await shell.interrupt()
            assert (await asyncio.wait_for(running, 10)).stdout == "tidied\n"

    async def test_an_interrupt_of_nothing_does_nothing(self) -> None:
        async with self.shell() as shell:
            await shell.interrupt()
            await says(shell, "echo on", "on\n")
            for _ in range(20):  # also in the moment in which a line ends
                done, _unused = await asyncio.gather(shell.run("echo x"), shell.interrupt())
                assert done.exit_code in (0, 130)
            await says(shell, "echo on", "on\n")

    async def test_background_processes_outlive_an_interrupt(self) -> None:
        async with self.shell() as shell:
            await shell.run("sleep 50 & pid=$!")
            running = asyncio.create_task(shell.run("sleep 100"))
            await asyncio.sleep(0.3)
            await shell.interrupt()
            await running
            await says(shell, "kill -0 $pid && echo lives", "lives\n")
            assert (await shell.run(STUBBORN, seconds=0.5)).timed_out
            await says(shell, "kill -0 $pid && echo lives", "lives\n")

    async def test_a_line_out_of_time_is_ended_and_the_shell_lives_on(self) -> None:
        async with self.shell() as shell:
            await shell.run("kept=1; cd /")
            began = time.monotonic()
            done = await shell.run("echo before; sleep 100; echo not here", seconds=0.3)
            assert (done.stdout, done.exit_code, done.failure) == ("before\n", 137, "timeout")
            done = await shell.run("while true; do :; done", seconds=0.3)
            assert done.timed_out
            assert time.monotonic() - began < 5
            await says(shell, "echo $kept; pwd", "1\n/\n")

    async def test_what_ignores_an_interrupt_is_killed_and_the_shell_lives_on(self) -> None:
        mark = uuid.uuid4().hex
        async with self.shell() as shell:
            await shell.run("kept=1")
            done = await shell.run(f"{STUBBORN}; : {mark}", seconds=1)
            assert done.timed_out
            assert done.stdout.startswith("begun\n")
            await says(shell, "echo $kept", "1\n")
            done = await shell.run(f"setsid {STUBBORN}", seconds=1)
            assert done.timed_out
            await says(shell, "echo $kept", "1\n")

    async def test_a_shell_that_hangs_itself_is_lost_with_an_error(self) -> None:
        async with self.sandbox() as sandbox:
            shell = await sandbox.shell()
            done = await shell.run("echo begun; trap '' INT QUIT; while :; do :; done", seconds=0.3)
            assert (done.stdout, done.timed_out) == ("begun\n", True)
            assert not shell.alive
            with raises(SandboxLost, "shell"):
                await shell.run("echo on")
            await says(await sandbox.shell(), "echo other", "other\n")

    async def test_a_cancelled_line_is_ended_and_the_shell_lives_on(self) -> None:
        mark = uuid.uuid4().hex
        async with self.shell() as shell:
            await shell.run("kept=1")
            line = f"echo begun; sh -c 'sleep 100; : {mark}'; echo not here"
            running = asyncio.create_task(shell.run(line))
            queued = asyncio.create_task(shell.run("kept=2"))
            await asyncio.sleep(0.3)
            for task in (queued, running):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert task.cancelled()
            await says(shell, "echo $kept", "1\n")
            with contextlib.suppress(SkipTest):
                await self.gone(mark)

    async def test_close_ends_what_the_shell_started(self) -> None:
        mark = uuid.uuid4().hex
        async with self.sandbox() as sandbox:
            shell = await sandbox.shell()
            await shell.run(f"sh -c 'sleep 1000; : {mark}' &")
            running = asyncio.create_task(shell.run(f"sh -c 'sleep 1000; : {mark}'"))
            await self.there(mark)
            await shell.close()
            with raises(SandboxLost):
                await running
            await shell.close()
            assert not shell.alive
            await self.gone(mark)
            assert (await sandbox.run(["true"])).ok
