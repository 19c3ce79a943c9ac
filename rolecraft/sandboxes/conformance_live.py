"""What every provider of sandboxes that live on must do, as tests for anybody's.

    class TestMyProvider(LiveSandboxConformance):
        def make(self):
            return MyProvider()

pytest (with pytest-asyncio in auto mode) collects the rest. A provider is held to the `walls` that
it declares, exactly: tests of a wall that it does not declare are skipped. Override
`sees_processes` if its processes are on another machine. Commands need `sh`, `bash`, `python3` and
coreutils.

Parts can be taken alone: `RunsConformance` and `LivesConformance` from here, `ShellConformance`
from `conformance_shells`, `FilesConformance`, `TransferConformance` and `ForkConformance` from
`conformance_files`, `WallsConformance` from `conformance_walls`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import uuid

from rolecraft.errors import UsageError
from rolecraft.sandboxes._conformance import LIVE_LIMITS, LiveConformance, raises
from rolecraft.sandboxes.base import MIB, SandboxLimits
from rolecraft.sandboxes.conformance_files import (
    FilesConformance,
    ForkConformance,
    TransferConformance,
)
from rolecraft.sandboxes.conformance_shells import ShellConformance
from rolecraft.sandboxes.conformance_walls import WallsConformance
from rolecraft.sandboxes.live import (
    EVERY_WALL,
    AllowList,
    LiveSandbox,
    SandboxFileError,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
)


class RunsConformance(LiveConformance):
    """One command after the other."""

    async def test_output_exit_code_and_folder(self) -> None:
        async with self.sandbox(files={"d/f": "x"}) as sandbox:
            done = await sandbox.run(["sh", "-c", "echo out ä; echo err >&2; exit 3"])
            assert (done.stdout, done.stderr, done.exit_code) == ("out ä\n", "err\n", 3)
            assert (await sandbox.run(["pwd"])).stdout == f"{sandbox.folder}\n"
            assert (await sandbox.run(["ls"], cwd="d")).stdout == "f\n"
            assert (await sandbox.run(["ls"], cwd=f"{sandbox.folder}/d")).stdout == "f\n"
            assert (await sandbox.run(["echo", "$HOME", "a b", "", "*"])).stdout == "$HOME a b  *\n"
            for folder in ("missing", "d/f"):
                with raises(SandboxFileError, folder):
                    await sandbox.run(["ls"], cwd=folder)
                with raises(SandboxFileError, folder):
                    await sandbox.shell(cwd=folder)

    async def test_the_environment_is_the_specs_and_the_calls(self) -> None:
        async with self.sandbox(env={"A": "1", "B": "a b\n$x"}) as sandbox:
            done = await sandbox.run(["env", "-0"], env={"B": "2", "C": ""})
            found = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
            assert (found["A"], found["B"], found["C"]) == ("1", "2", "")
            assert set(found) <= {*"ABC", "PATH", "HOME", "LANG", "TMPDIR", "PWD"}, found
            assert found["HOME"] == sandbox.folder
            assert (await sandbox.run(["printenv", "B"])).stdout == "a b\n$x\n"

    async def test_stdin_is_what_is_given_and_empty_otherwise(self) -> None:
        async with self.sandbox() as sandbox:
            assert (await sandbox.run(["wc", "-c"])).stdout.strip() == "0"
            assert (
                await sandbox.run(["wc", "-c"], stdin="ä" * 500_000)
            ).stdout.strip() == "1000000"
            assert (await sandbox.run(["true"], stdin=b"x" * 1_000_000)).ok, "nobody need read it"

    async def test_what_cannot_be_run(self) -> None:
        async with self.sandbox() as sandbox:
            done = await sandbox.run(["no-such-program"])
            assert done.exit_code == 127
            assert "no-such-program" in done.stderr
            with raises(UsageError, "list of words"):
                await sandbox.run("echo hi")
            assert (await sandbox.run(["sh", "-c", "kill -TERM $$"])).exit_code == 128 + 15

    async def test_limits_of_the_spec_and_of_a_call(self) -> None:
        limits = SandboxLimits(seconds=0.5, output_bytes=100)
        async with self.sandbox(limits=limits) as sandbox:
            done = await sandbox.run(["sh", "-c", "echo before; sleep 100"])
            assert (done.stdout, done.exit_code, done.failure) == ("before\n", 137, "timeout")
            done = await sandbox.run(["seq", "1000"])
            assert done.stdout.startswith("1\n2\n")
            assert done.stdout.endswith("\n999\n1000\n")
            assert done.stdout_truncated
            assert len(done.stdout) < 200
            done = await sandbox.run(["sh", "-c", "sleep 1; seq 1000"], limits=LIVE_LIMITS)
            assert done.ok
            assert not done.stdout_truncated

    async def test_limits_on_processor_time_memory_and_files(self) -> None:
        async with self.sandbox() as sandbox:
            few = SandboxLimits(seconds=60, cpu_seconds=1)
            done = await sandbox.run(["sh", "-c", "while :; do :; done"], limits=few)
            assert done.timed_out
            assert done.exit_code in (128 + signal.SIGXCPU, 137)
            few = SandboxLimits(seconds=60, memory_bytes=64 * MIB)
            code = "import time; x = b'x' * 100_000_000; time.sleep(60)"
            done = await sandbox.run(["python3", "-c", code], limits=few)
            assert done.failure == "memory"
            few = SandboxLimits(file_bytes=1 * MIB)
            assert not (await sandbox.run(["sh", "-c", "yes > big"], limits=few)).ok
            assert len(await sandbox.read("big")) <= 1 * MIB

    async def test_what_a_run_started_ends_with_it(self) -> None:
        mark = uuid.uuid4().hex
        async with self.sandbox() as sandbox:
            done = await sandbox.run(["sh", "-c", f"sh -c 'sleep 1000; : {mark}' & echo on"])
            assert done.stdout == "on\n"
            await self.gone(mark)

    async def test_a_cancelled_run_is_ended_and_the_sandbox_lives_on(self) -> None:
        mark = uuid.uuid4().hex
        async with self.sandbox() as sandbox:
            running = asyncio.create_task(sandbox.run(["sh", "-c", f"sleep 1000; : {mark}"]))
            await self.there(mark)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            assert running.cancelled()
            await self.gone(mark)
            assert (await sandbox.run(["true"])).ok

    async def test_many_runs_and_shells_at_once(self) -> None:
        async with self.sandbox() as sandbox:
            runs = [sandbox.run(["sh", "-c", f"echo {number}"]) for number in range(10)]
            assert [int(done.stdout) for done in await asyncio.gather(*runs)] == list(range(10))
            shells = await asyncio.gather(*(sandbox.shell() for _ in range(5)))
            lines = [shell.run(f"echo {number}") for number, shell in enumerate(shells)]
            assert [int(done.stdout) for done in await asyncio.gather(*lines)] == list(range(5))


class LivesConformance(LiveConformance):
    """Beginnings and endings."""

    async def test_many_sandboxes_at_once_see_nothing_of_each_other(self) -> None:
        provider = self.make()
        spec = SandboxSpec(limits=LIVE_LIMITS)
        made = await asyncio.gather(*(provider.create(spec) for _ in range(10)))
        try:
            assert len({sandbox.id for sandbox in made}) == 10

            async def use(number: int, sandbox: LiveSandbox) -> None:
                await sandbox.write(f"mine-{number}", str(number))
                done = await sandbox.run(["sh", "-c", "ls; cat *"])
                assert done.stdout == f"mine-{number}\n{number}"

            await asyncio.gather(*(use(*each) for each in enumerate(made)))
        finally:
            await asyncio.gather(*(sandbox.close() for sandbox in made))

    async def test_a_sandbox_without_a_spec(self) -> None:
        async with await self.make().create() as sandbox:
            assert (await sandbox.run(["echo", "hi"])).stdout == "hi\n"
            assert sandbox.spec == SandboxSpec()

    async def test_close_ends_everything_and_can_be_called_again(self) -> None:
        mark = uuid.uuid4().hex
        async with self.sandbox() as sandbox:
            shell = await sandbox.shell()
            await shell.run(f"sh -c 'sleep 1000; : {mark}' &")
            running = asyncio.create_task(sandbox.run(["sh", "-c", f"sleep 1000; : {mark}"]))
            line = asyncio.create_task(shell.run("sleep 1000"))
            await asyncio.sleep(0.3)
            began = time.monotonic()
            await asyncio.gather(sandbox.close(), sandbox.close())
            assert time.monotonic() - began < 10
            for waiting in (running, line):
                with raises(SandboxLost):
                    await waiting
            await sandbox.close()
            await self.gone(mark)

    async def test_after_close_every_call_says_that_it_is_lost(self) -> None:
        async with self.sandbox(files={"a": ""}) as sandbox:
            shell = await sandbox.shell()
        assert not shell.alive
        calls = (
            lambda: sandbox.run(["true"]),
            lambda: sandbox.shell(),
            lambda: sandbox.read("a"),
            lambda: sandbox.write("a", ""),
            lambda: sandbox.upload("/usr/bin/env", "a"),
            lambda: sandbox.download("a", "/nowhere/a"),
            lambda: sandbox.snapshot(),
            lambda: sandbox.fork(),
            lambda: shell.run("true"),
        )
        for call in calls:
            with raises(SandboxLost):
                await call()
        await shell.interrupt()
        await shell.close()

    async def test_it_closes_when_the_block_ends_by_an_error(self) -> None:
        with raises(KeyError):
            async with self.sandbox() as sandbox:
                raise KeyError
        with raises(SandboxLost):
            await sandbox.run(["true"])

    async def test_what_is_required_is_held_or_refused(self) -> None:
        provider = self.make()
        for wall in sorted(EVERY_WALL):
            spec = SandboxSpec(requires=frozenset((wall,)), limits=LIVE_LIMITS)
            if wall in provider.walls:
                await (await provider.create(spec)).close()
            else:
                with raises(SandboxRefused, f"`{wall}`"):
                    await provider.create(spec)

    async def test_an_allow_list_is_refused_without_a_network_wall(self) -> None:
        if "network" not in self.make().walls:
            with raises(SandboxRefused, "`network`"):
                await self.make().create(SandboxSpec(network=AllowList(("example.org",))))

    async def test_a_bad_path_among_the_files_of_a_spec_is_refused(self) -> None:
        for name in ("/etc/x", "../x", "a/../../x", ""):
            with raises(UsageError, "relative"):
                await self.make().create(SandboxSpec(files={name: ""}))


class LiveSandboxConformance(
    RunsConformance,
    LivesConformance,
    FilesConformance,
    TransferConformance,
    ForkConformance,
    ShellConformance,
    WallsConformance,
):
    """All of it."""
