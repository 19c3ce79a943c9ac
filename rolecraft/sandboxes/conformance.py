"""What every sandbox must do, as tests that anybody's can be put through.

    class TestMySandbox(IsolatedSandboxConformance):
        def make(self):
            return MySandbox()

pytest (with pytest-asyncio in auto mode) collects the rest. `SandboxConformance` alone is for
sandboxes without walls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import tempfile
import time
import uuid
from abc import abstractmethod
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.sandboxes._conformance import gone, processes, raises, until
from rolecraft.sandboxes.base import MIB, Execution, Sandbox, SandboxLimits

HOME = Path.home()
"""Of whoever runs this."""


class SandboxConformance:
    """Results, limits and endings."""

    @abstractmethod
    def make(self) -> Sandbox:
        """The sandbox to test."""

    async def python(
        self, code: str, *, stdin: str | bytes = b"", limits: SandboxLimits | None = None
    ) -> Execution:
        """Run a Python program in it."""
        return await self.make().run(
            ["python3", "-I", "main.py"],
            files={"main.py": code},
            stdin=stdin,
            limits=limits or SandboxLimits(),
        )

    async def test_output_and_exit_code_come_back(self) -> None:
        code = "import sys; print('out ä'); print('err', file=sys.stderr); sys.exit(3)"
        done = await self.python(code)
        assert (done.stdout, done.stderr, done.exit_code) == ("out ä\n", "err\n", 3)
        assert not done.ok
        assert (await self.python("pass")).ok

    async def test_files_are_there_and_the_folder_is_fresh(self) -> None:
        sandbox, look = self.make(), ["sh", "-c", "cat a/b.txt; find . -type f; echo > left"]
        for _ in range(2):
            done = await sandbox.run(look, files={"a/b.txt": b"content\n"})
            assert done.stdout == "content\n./a/b.txt\n", done.stderr

    async def test_the_same_run_reads_the_same(self) -> None:
        code = "import os; print(os.path.abspath('here')); raise ValueError('no')"
        first, second = str(await self.python(code)), str(await self.python(code))
        assert first == second
        assert "ValueError: no\n[exit code 1]" in first

    async def test_paths_that_lead_out_are_refused(self) -> None:
        for name in ("/etc/x", "../x", "a/../../x", ""):
            with raises(UsageError, "relative"):
                await self.make().run(["true"], files={name: ""})

    async def test_a_line_of_shell_is_refused_as_a_command(self) -> None:
        with raises(UsageError, "list of words"):
            await self.make().run("echo hi")

    async def test_stdin_is_what_is_given_and_empty_otherwise(self) -> None:
        code = "import sys; print(len(sys.stdin.read()))"
        assert (await self.python(code)).stdout == "0\n"
        assert (await self.python(code, stdin="x" * 1_000_000)).stdout == "1000000\n"
        assert (await self.python("pass", stdin="x" * 1_000_000)).ok, "nobody need read it"

    async def test_bytes_that_are_no_text_are_no_error(self) -> None:
        done = await self.python(r"import sys; sys.stdout.buffer.write(b'a\xff\x00b')")
        assert done.stdout == "a�\0b"

    async def test_the_environment_is_cleared(self) -> None:
        done = await self.make().run(["env"])
        names = {line.split("=")[0] for line in done.stdout.splitlines()}
        assert names <= {"PATH", "HOME", "LANG", "TMPDIR", "PWD"}, names

    async def test_a_program_that_does_not_exist_is_a_result(self) -> None:
        done = await self.make().run(["no-such-program"])
        assert done.exit_code == 127
        assert "no-such-program" in done.stderr

    async def test_a_signal_is_an_exit_code(self) -> None:
        done = await self.make().run(["sh", "-c", "kill -TERM $$"])
        assert done.exit_code == 128 + 15

    async def test_an_endless_loop_is_stopped_by_time(self) -> None:
        limits = SandboxLimits(seconds=0.5)
        done = await self.python("print('before', flush=True)\nwhile True: pass", limits=limits)
        assert done.timed_out
        assert not done.ok
        assert done.stdout == "before\n"

    async def test_processor_time_is_limited_apart_from_wall_time(self) -> None:
        limits = SandboxLimits(seconds=60, cpu_seconds=1)
        done = await self.python("while True: pass", limits=limits)
        assert done.timed_out
        assert done.exit_code == 128 + signal.SIGXCPU, "it was not wall time that stopped it"

    async def test_endless_output_is_cut_and_the_program_is_stopped(self) -> None:
        limits = SandboxLimits(seconds=1, output_bytes=1000)
        done = await self.make().run(["sh", "-c", "yes >&2 & yes"], limits=limits)
        for text in (done.stdout, done.stderr):
            head, tail = re.split(r"\n\[\.\.\. \d+ bytes left out \.\.\.\]\n", text)
            assert (head, len(tail)) == ("y\n" * 250, 500)
            assert not tail.strip("y\n")
        assert done.stdout_truncated
        assert done.stderr_truncated
        assert done.timed_out

    async def test_of_long_output_the_head_and_the_tail_are_kept(self) -> None:
        code = "print('first'); print('ä' * 100_000); print('last')"
        done = await self.python(code, limits=SandboxLimits(output_bytes=101))
        assert re.fullmatch(
            r"first\nä+\n\[\.\.\. 199\d\d\d? bytes left out \.\.\.\]\nä+\nlast\n", done.stdout
        )
        assert done.stdout_truncated

    async def test_what_wants_too_much_memory_at_once_fails_by_itself(self) -> None:
        limits = SandboxLimits(memory_bytes=128 * MIB)
        done = await self.python("x = bytearray(2**33)", limits=limits)
        assert done.exit_code == 1
        assert "MemoryError" in done.stderr

    async def test_what_takes_more_memory_than_allowed_is_killed(self) -> None:
        limits = SandboxLimits(seconds=60, memory_bytes=64 * MIB)
        code = "import time; x = b'x' * 100_000_000; time.sleep(60)"
        done = await self.python(code, limits=limits)
        assert done.killed_for_memory
        assert not done.ok
        assert done.exit_code == 137

    async def test_memory_is_counted_over_allprocesses(self) -> None:
        limits = SandboxLimits(seconds=60, memory_bytes=100 * MIB)
        code = "import os, time\nfor _ in range(3): os.fork()\nx = b'x' * 2**25; time.sleep(60)"
        assert (await self.python(code, limits=limits)).killed_for_memory

    async def test_a_file_has_a_largest_size(self) -> None:
        limits = SandboxLimits(file_bytes=1 * MIB)
        code = "f = open('big', 'wb')\nfor _ in range(100): f.write(b'x' * 2**20)"
        done = await self.python(code, limits=limits)
        assert not done.ok

    async def test_what_goes_on_in_the_background_ends_with_the_command(self) -> None:
        mark = uuid.uuid4().hex
        code = f"import subprocess; subprocess.Popen(['sh', '-c', 'sleep 1000; : {mark}'])"
        done = await self.python(code)
        assert done.ok
        assert not done.timed_out
        await gone(mark)

    async def test_a_stopped_program_leaves_no_child(self) -> None:
        mark = uuid.uuid4().hex
        command = ["sh", "-c", f"sh -c 'sleep 1000; : {mark}' & wait"]
        assert (await self.make().run(command, limits=SandboxLimits(seconds=0.3))).timed_out
        await gone(mark)

    async def test_a_cancelled_run_is_killed(self) -> None:
        mark = uuid.uuid4().hex
        running = asyncio.create_task(self.make().run(["sh", "-c", f"sleep 1000; : {mark}"]))
        await until(lambda: processes(mark) > 0, "the command runs")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert running.cancelled()
        await gone(mark)

    async def test_limits_hold_while_the_event_loop_is_busy(self) -> None:
        mark = uuid.uuid4().hex
        command = ["sh", "-c", f"sleep 1000; : {mark}"]
        running = asyncio.create_task(self.make().run(command, limits=SandboxLimits(seconds=0.5)))
        await until(lambda: processes(mark) > 0, "the command runs")
        deadline = time.monotonic() + 20
        while processes(mark):  # a rude neighbour: nothing else gets a turn in this loop
            assert time.monotonic() < deadline, "only the event loop could have stopped it"
        assert (await running).timed_out

    async def test_many_run_at_once(self) -> None:
        sandbox = self.make()
        runs = [sandbox.run(["sh", "-c", f"echo {number}"]) for number in range(20)]
        assert [int(done.stdout) for done in await asyncio.gather(*runs)] == list(range(20))


class IsolatedSandboxConformance(SandboxConformance):
    """And walls."""

    async def test_there_is_no_network(self) -> None:
        code = """
import socket
for kind, where in [(socket.SOCK_STREAM, ("127.0.0.1", 22)), (socket.SOCK_STREAM, ("1.1.1.1", 53)),
                    (socket.SOCK_DGRAM, ("1.1.1.1", 53))]:
    s = socket.socket(socket.AF_INET, kind); s.settimeout(2)
    try: s.connect(where); s.send(b"x"); print("reached", where)
    except OSError: pass
try: print("resolved", socket.getaddrinfo("example.com", 80))
except OSError: pass
"""
        assert (await self.python(code)).stdout == ""

    async def test_nobody_listens_on_the_hosts_abstract_sockets(self) -> None:
        import socket

        name = "\0rolecraft-" + uuid.uuid4().hex
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
            server.listen()
            code = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
            assert "ConnectionRefusedError" in (await self.python(code)).stderr

    async def test_files_of_the_host_cannot_be_read(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as secret:
            secret.write("a secret of this machine")
            secret.flush()
            os.chmod(secret.name, 0o644)
            for path in ("/etc/shadow", "/etc/passwd", "/etc/hosts", secret.name):
                done = await self.make().run(["cat", path])
                assert (done.exit_code, done.stdout) == (1, ""), path

    async def test_of_the_home_folder_no_more_is_there_than_what_leads_to_python(self) -> None:
        done = await self.make().run(["ls", "-A", str(HOME)])
        assert len(done.stdout.split()) <= 1

    async def test_nothing_outside_can_be_written(self) -> None:
        for folder in (
            "",
            "/usr",
            "/etc",
            "/dev",
            "/bin",
            "/proc/sys/kernel",
            "/sys",
            str(HOME),
        ):
            done = await self.make().run(["sh", "-c", f"echo x > '{folder}/hostname'"])
            assert done.exit_code != 0, folder
        mark = f"rolecraft-{uuid.uuid4().hex}"
        assert (await self.make().run(["sh", "-c", f"echo x > /tmp/{mark}"])).ok
        assert mark not in os.listdir("/tmp")

    async def test_the_work_folder_has_a_size(self) -> None:
        limits = SandboxLimits(disk_bytes=2 * MIB)
        fill = "for i in 1 2 3 4; do head -c 1000000 /dev/zero > $0/$i || exit 9; done"
        for place in (".", "/tmp", "/dev/shm"):
            done = await self.make().run(["sh", "-c", fill, place], limits=limits)
            assert done.exit_code == 9, place

    async def test_a_fork_bomb_is_bounded(self) -> None:
        code = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        made += 1
except OSError: print(made)
"""
        limits = SandboxLimits(seconds=30, processes=16)
        done = await self.python(code, limits=limits)
        assert 5 < int(done.stdout) < 16
        bomb = await self.make().run(
            ["sh", "-c", "b() { b | b & }; b; wait"], limits=SandboxLimits(seconds=1, processes=32)
        )
        assert bomb.exit_code in (0, 2, 137)
        assert (await self.make().run(["true"])).ok, "the next one has all its processes"

    async def test_other_processes_are_out_of_sight_and_reach(self) -> None:
        done = await self.make().run(["sh", "-c", "ls /proc | grep -c '^[0-9]'; kill -9 -1"])
        assert int(done.stdout) < 10

    async def test_there_are_no_rights_to_gain(self) -> None:
        look = "id -u; grep -h Cap /proc/self/status; unshare -U true"
        done = await self.make().run(["sh", "-c", look])
        uid, *capabilities = done.stdout.splitlines()
        assert uid != "0"
        assert {line.split()[1].strip("0") for line in capabilities} == {""}
        assert done.exit_code != 0, "it could make a user namespace of its own"

    async def test_no_open_file_is_handed_down(self) -> None:
        code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
        assert (await self.python(code)).stdout == "[0, 1, 2, 3]\n"  # 3 is the folder being listed

    async def test_a_session_of_its_own_does_not_survive_either(self) -> None:
        mark = uuid.uuid4().hex
        code = f"""
import os, subprocess
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        subprocess.run(["sh", "-c", "sleep 1000; : {mark}"])
    os._exit(0)
os.wait()
"""
        assert (await self.python(code)).ok
        await gone(mark)
