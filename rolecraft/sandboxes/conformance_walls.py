"""The walls of live sandboxes: each test is about one. See `conformance_live`."""

# ruff: noqa: ASYNC220, ASYNC240 - what these tests do on the host takes no time

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any

from rolecraft.sandboxes._conformance import LiveConformance
from rolecraft.sandboxes.base import MIB, SandboxLimits

REACH = """
import socket, sys
port = int(sys.argv[1])
for host in ("127.0.0.1", "::1", sys.argv[2], "1.1.1.1"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as s:
                s.settimeout(1)
                s.connect((host, port)); s.send(b"x")
                if kind == socket.SOCK_STREAM or s.recv(1): print("reached", host, kind)
        except OSError: pass
try: print("resolved", socket.getaddrinfo("example.com", 80))
except OSError: pass
"""


class WallsConformance(LiveConformance):
    """What a provider declares, it holds."""

    async def test_nothing_of_the_host_can_be_read_or_written(self) -> None:
        self.needs_wall("files")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            secret = Path(folder, "secret")
            secret.write_text("a secret of this machine")
            secret.chmod(0o666)
            async with self.sandbox() as sandbox:
                shell = await sandbox.shell()
                for path in ("/etc/shadow", secret, f"/proc/1/root{secret}", "/proc/1/environ"):
                    assert not (await sandbox.run(["cat", str(path)])).stdout
                    assert (await shell.run(f"cat '{path}'")).exit_code != 0
                places = (
                    folder,
                    "",
                    "/usr",
                    "/etc",
                    "/bin",
                    "/proc/sys/kernel",
                    "/sys",
                    Path.home(),
                )
                for place in places:
                    assert (await shell.run(f"echo x > '{place}/hostname'")).exit_code != 0, place
                link = f"ln -s '{secret}' s && echo x > s; ln '{secret}' h && echo x > h"
                await shell.run(link)
                await shell.run(f"echo x > /tmp/{secret.parent.name}-out")
            assert secret.read_text() == "a secret of this machine"
            assert os.listdir(folder) == ["secret"]
            assert not Path(f"/tmp/{secret.parent.name}-out").exists()

    async def test_named_folders_can_be_read_and_not_written(self) -> None:
        self.needs_wall("files")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            Path(folder, "named").write_text("for all")
            Path(folder, "named").chmod(0o666)
            async with self.sandbox(readable=(folder,)) as sandbox:
                assert (await sandbox.run(["cat", f"{folder}/named"])).stdout == "for all"
                write = ["sh", "-c", f"echo x > '{folder}/named' || echo x > '{folder}/new'"]
                assert not (await sandbox.run(write)).ok
            assert [path.read_text() for path in Path(folder).iterdir()] == ["for all"]

    async def test_no_host_can_be_reached(self) -> None:
        self.needs_wall("network")
        with _EchoServer() as port:
            async with self.sandbox() as sandbox:
                words = ["python3", "-c", REACH, str(port), _address()]
                assert (await sandbox.run(words)).stdout == ""
                shell = await sandbox.shell()
                await sandbox.write("reach.py", REACH)
                assert (await shell.run(f"python3 reach.py {port} {_address()}")).stdout == ""

    async def test_abstract_sockets_of_the_host_cannot_be_reached(self) -> None:
        self.needs_wall("network")
        name = "\0rolecraft-" + uuid.uuid4().hex
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
            server.listen()
            code = (
                f"import socket; socket.socket(socket.AF_UNIX).connect({name!r}); print('reached')"
            )
            async with self.sandbox() as sandbox:
                done = await sandbox.run(["python3", "-c", code])
                assert (done.stdout, done.exit_code) == ("", 1)

    async def test_processes_of_the_host_are_out_of_sight_and_reach(self) -> None:
        self.needs_wall("processes")
        mark = uuid.uuid4().hex
        words = [sys.executable, "-c", f"import time; time.sleep(60)  # {mark}"]
        with subprocess.Popen(words) as other:
            try:
                async with self.sandbox() as sandbox:
                    await self.there(mark)
                    look = (
                        f"cat /proc/[0-9]*/cmdline 2>/dev/null | grep -ac '[{mark[0]}]{mark[1:]}'"
                    )
                    done = await sandbox.run(["sh", "-c", look])
                    assert done.stdout in ("0\n", "")
                    await sandbox.run(["sh", "-c", f"kill -9 {other.pid}; kill -9 -1"])
                    shell = await sandbox.shell()
                    await shell.run(f"kill -9 {other.pid} -{other.pid} {os.getpid()}")
                    assert other.poll() is None
            finally:
                other.kill()

    async def test_memory_is_limited_for_all_together(self) -> None:
        self.needs_wall("memory")
        limits = SandboxLimits(seconds=30, memory_bytes=96 * MIB)
        code = "import os, time\nfor _ in range(2): os.fork()\nx = b'x' * 2**25; time.sleep(20)"
        async with self.sandbox(limits=limits) as sandbox:
            done = await sandbox.run(["python3", "-c", code])
            assert done.failure == "memory", done
            shell = await sandbox.shell()
            await sandbox.write("eat.py", code)
            done = await shell.run("python3 eat.py; echo done")
            assert not done.timed_out, "somebody of the four was killed, and all of 20 s not used"

    async def test_processes_are_counted_for_all_together(self) -> None:
        self.needs_wall("count")
        limits = SandboxLimits(seconds=20, processes=24)
        code = (
            "import os, time\nmade = 0\ntry:\n    while True:\n"
            "        if os.fork() == 0: time.sleep(60); os._exit(0)\n        made += 1\n"
            "except OSError: print(made)"
        )
        async with self.sandbox(limits=limits) as sandbox:
            done = await sandbox.run(["python3", "-c", code])
            assert 5 < int(done.stdout) < 24
            shell = await sandbox.shell()
            bomb = await shell.run("b() { b | b & }; b; sleep 0.5", seconds=2)
            assert bomb.stdout is not None
            await shell.close()
            assert (await sandbox.run(["true"])).ok, "the next one has all its processes"

    async def test_the_disk_is_limited_for_all_files_together(self) -> None:
        self.needs_wall("disk")
        limits = SandboxLimits(disk_bytes=4 * MIB)
        fill = "for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero > $0/$i || exit 9; done"
        for place in (".", "/tmp", "/dev/shm"):
            async with self.sandbox(limits=limits) as sandbox:
                assert (await sandbox.run(["sh", "-c", fill, place])).exit_code != 0, place

    async def test_no_session_or_orphan_survives_close(self) -> None:
        self.needs_wall("survivors")
        mark = uuid.uuid4().hex
        code = (
            "import os, subprocess, sys\nif os.fork() == 0:\n    os.setsid()\n"
            "    if os.fork() == 0:\n        os.environ.clear(); os.chdir('/')\n"
            f"        os.execvpe('sh', ['sh', '-c', 'sleep 1000; : {mark}'], {{}})\n"
            "    os._exit(0)\nos.wait()"
        )
        async with self.sandbox(files={"go.py": code}) as sandbox:
            assert (await sandbox.run(["python3", "go.py"])).ok
            await self.gone(mark)
            shell = await sandbox.shell()
            await shell.run("python3 go.py; nohup setsid python3 go.py > /dev/null 2>&1 &")
            await self.there(mark)
        await self.gone(mark)


class _EchoServer:
    """Answers TCP and UDP on all addresses of this machine, on one port."""

    def __enter__(self) -> int:
        self._tcp = socket.create_server(("", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        port: int = self._tcp.getsockname()[1]
        self._udp.bind(("", port))
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()
        return port

    def _answer(self) -> None:
        while True:
            try:
                data, who = self._udp.recvfrom(10)
                if data == b"stop":
                    return
                self._udp.sendto(data, who)
            except OSError:
                return

    def __exit__(self, *_: Any) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"stop", ("127.0.0.1", self._udp.getsockname()[1]))
        self._thread.join(5)
        self._tcp.close()
        self._udp.close()


def _address() -> str:
    """An address of this machine that is not the loopback's, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
