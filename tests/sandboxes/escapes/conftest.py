"""Who attacks, from inside a sandbox, and what there is to reach outside."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from rolecraft.sandboxes import Bubblewrap, Landlock, LiveSandbox, SandboxSpec
from rolecraft.sandboxes._landlock import version
from rolecraft.sandboxes.base import Execution, SandboxLimits
from rolecraft.sandboxes.live import Wall

LIMITS = SandboxLimits(seconds=20)
WAYS = ["bubblewrap-once", "bubblewrap-run", "bubblewrap-shell", "landlock-run", "landlock-shell"]


class Attacker:
    """A program in a sandbox, started in one of the ways there are."""

    def __init__(self, way: str, folder: Path | None = None) -> None:
        self.way = way
        self.provider = Bubblewrap() if way.startswith("bubblewrap") else Landlock()
        self.live: LiveSandbox | None = None
        self._stack = contextlib.AsyncExitStack()

    def needs(self, wall: Wall) -> None:
        """Skip the test if this provider does not declare the wall."""
        if wall not in self.provider.walls:
            pytest.skip(f"{self.provider!r} declares no `{wall}` wall")

    async def begin(self, limits: SandboxLimits = LIMITS) -> LiveSandbox:
        """The sandbox that lives on, in which the programs run from here on."""
        if self.way.endswith("once"):
            pytest.skip("about sandboxes that live on")
        await self.end()
        self.live = await self._stack.enter_async_context(
            await self.provider.create(SandboxSpec(limits=limits))
        )
        return self.live

    async def end(self) -> None:
        """Close it."""
        await self._stack.aclose()
        self.live = None

    async def python(self, code: str, *words: object, limits: SandboxLimits = LIMITS) -> Execution:
        """Run a Python program with these arguments."""
        command = ["python3", "-I", "attack.py", *map(str, words)]
        return await self._run(command, {"attack.py": code}, limits)

    async def sh(self, line: str, *, limits: SandboxLimits = LIMITS) -> Execution:
        """Run a line of shell."""
        return await self._run(["sh", "attack.sh"], {"attack.sh": f"{line}\n"}, limits)

    async def _run(
        self, command: list[str], files: dict[str, str], limits: SandboxLimits
    ) -> Execution:
        if self.way.endswith("once"):
            return await self.provider.run(command, files=files, limits=limits)
        if self.live is None or self.live.spec.limits != limits:
            await self.begin(limits)
        assert self.live is not None
        if self.way.endswith("run"):
            return await self.live.run(command, files=files)
        for name, content in files.items():
            await self.live.write(name, content)
        shell = await self.live.shell()
        try:
            words = (f"'{word}'" for word in command)
            return await shell.run(f"{' '.join(words)} < /dev/null")
        finally:
            await shell.close()


@pytest.fixture(params=WAYS)
async def attacker(request: pytest.FixtureRequest) -> AsyncIterator[Attacker]:
    way: str = request.param
    if way.startswith("bubblewrap"):
        request.getfixturevalue("needs_program")("bwrap", package="bubblewrap")
    elif version() < 1:
        pytest.skip("this kernel has no Landlock")
    attacker = Attacker(way)
    try:
        yield attacker
    finally:
        await attacker.end()


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder of the host that everybody may read and write, with a file `secret`."""
    folder = Path("/var/tmp", f"rolecraft-test-{secrets.token_hex(8)}")
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "secret").write_text("a secret of this machine")
    (folder / "secret").chmod(0o666)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Victim:
    """A process of the host, of the very user that sandboxes run as; its environment is secret."""

    def __init__(self) -> None:
        words = ["sleep", "600"]
        if os.geteuid() == 0:
            setpriv = shutil.which("setpriv")
            if setpriv is None:
                pytest.skip("no setpriv, to run a process of the sandboxes' user")
            words = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--", *words]
        self.process = subprocess.Popen(
            words, env={"SECRET": "a secret of a process", "PATH": os.environ["PATH"]}
        )
        self.pid = self.process.pid
        deadline = time.monotonic() + 60
        while b"sleep" not in Path(f"/proc/{self.pid}/cmdline").read_bytes()[:6]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self._before = self._look()

    def _look(self) -> tuple[object, ...]:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        limits = Path(f"/proc/{self.pid}/limits").read_text()
        return fields[0] in "SR", fields[16], os.sched_getaffinity(self.pid), limits

    def check(self) -> None:
        """It lives, and nothing about it has changed."""
        assert self.process.poll() is None, "it was killed"
        assert self._look() == self._before

    def end(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def victim() -> Iterator[Victim]:
    victim = Victim()
    try:
        yield victim
    finally:
        victim.end()


@pytest.fixture
def until() -> Callable[[Callable[[], bool], str], None]:
    """`until(holds, "what")`: wait for it, 20 s at most."""

    def wait(holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, f"not so within 60 s: {what}"
            time.sleep(0.01)

    return wait


@pytest.fixture
def processes() -> Callable[[str], int]:
    """`processes(mark)`: how many processes of the machine have `mark` in their command line."""

    def count(mark: str) -> int:
        found = 0
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = path.read_bytes()
                found += mark.encode() in line and os.fsencode(sys.executable) not in line
        return found

    return count
