"""What the parts of the conformance kit share."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import SkipTest

from rolecraft.sandboxes.base import MIB, SandboxLimits
from rolecraft.sandboxes.live import LiveSandbox, SandboxProvider, SandboxSpec, Shell, Wall

LIVE_LIMITS = SandboxLimits(
    seconds=20, cpu_seconds=20, memory_bytes=256 * MIB, processes=64, disk_bytes=64 * MIB
)
"""Of every sandbox of the kit, unless a test is about limits."""


class LiveConformance:
    """What a provider's author says, once for all parts of the kit."""

    @abstractmethod
    def make(self) -> SandboxProvider:
        """The provider to test."""

    def sees_processes(self) -> bool:
        """Whether the sandbox's processes can be seen in this machine's /proc, if there are any.

        Where not, tests that look for what is left over are skipped.
        """
        return True

    @contextlib.asynccontextmanager
    async def sandbox(self, **spec: Any) -> AsyncIterator[LiveSandbox]:
        """A sandbox of a `SandboxSpec` with `spec`."""
        spec.setdefault("limits", LIVE_LIMITS)
        async with await self.make().create(SandboxSpec(**spec)) as sandbox:
            yield sandbox

    @contextlib.asynccontextmanager
    async def shell(self, **spec: Any) -> AsyncIterator[Shell]:
        """A shell of such a sandbox."""
        async with self.sandbox(**spec) as sandbox:
            yield await sandbox.shell()

    def needs_wall(self, wall: Wall) -> None:
        """Skip the test if the provider does not declare the wall."""
        provider = self.make()
        if wall not in provider.walls:
            raise SkipTest(f"{provider!r} declares no `{wall}` wall")

    async def gone(self, mark: str) -> None:
        """Wait until no process has `mark` in its command line."""
        if not self.sees_processes():
            raise SkipTest("its processes are on another machine")
        await gone(mark)

    async def there(self, mark: str) -> None:
        """Wait until a process has `mark` in its command line."""
        if not self.sees_processes():
            raise SkipTest("its processes are on another machine")
        await until(lambda: processes(mark) > 0, f"a process with {mark} runs")


@contextlib.contextmanager
def raises(kind: type[Exception], text: str = "") -> Iterator[None]:
    """The block must raise `kind` with `text` in its message."""
    raised: Exception | None = None
    try:
        yield
    except kind as error:
        raised = error
    assert raised is not None, f"no {kind.__name__} was raised"
    assert text in str(raised), raised


def processes(mark: str) -> int:
    """How many processes of this machine have `mark` in their command line."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += mark.encode() in path.read_bytes()
    return found


async def gone(mark: str) -> None:
    """Wait until no process of this machine has `mark` in its command line."""
    await until(lambda: processes(mark) == 0, f"no process with {mark} is left")


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds, 20 seconds at most."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, f"not so within 20 s: {what}"
        await asyncio.sleep(0.01)


def tree(folder: Path) -> Mapping[str, bytes | str | None]:
    """What is in a folder of this machine: files' content, links' goals, None for folders."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


async def says(shell: Shell, line: str, output: str, exit_code: int = 0) -> None:
    """A shell's line must have this output and exit code.

    What bash says of itself at a terminal, `exit` and `[1] 4242`, may be there or not.
    """
    done = await shell.run(line)
    stdout = re.sub(r"^(\[\d+\] \d+|exit)\n", "", done.stdout, flags=re.MULTILINE)
    assert (stdout, done.exit_code) == (output, exit_code), (line, done)
    assert done.stderr == ""
    assert not done.timed_out
