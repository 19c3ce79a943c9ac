"""The programs `docker` and `podman`: one call each, and what their errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rolecraft.errors import SandboxError
from rolecraft.sandboxes.live import SandboxLost

Program = Literal["docker", "podman"]
PACKAGES = {"docker": "docker.io", "podman": "podman"}

# Podman's monitor leaves a file `oom` where it was called, when memory is short: not in a folder
# where no file can be.
NOWHERE = "/proc" if Path("/proc/self").exists() else "/"
NO_DAEMON = re.compile(
    r"cannot connect to the docker daemon|connect to the docker daemon socket"
    r"|is the docker daemon running|unable to connect to podman socket",
    re.IGNORECASE,
)
NO_IMAGE = re.compile(
    r"no such image|unable to find image|pull access denied|image not known|manifest unknown"
    r"|did not resolve to an alias|initializing source docker://|invalid reference format",
    re.IGNORECASE,
)
NO_CONTAINER = re.compile(
    r"no such container|no container with name|is not running|container state improper"
    r"|no such object|container has already been removed",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call printed, and its exit code."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Cli:
    """`docker` or `podman`, with the options that stand before every command."""

    program: Program
    options: tuple[str, ...] = ()

    def words(self, *arguments: str) -> list[str]:
        """The whole command line. Raises `SandboxError` if the program is not installed."""
        path = shutil.which(self.program)
        if path is None:
            raise SandboxError(
                f"`{self.program}` is not installed. Install it (Debian, Ubuntu: `apt install "
                f"{PACKAGES[self.program]}`), or choose another sandbox: `Bubblewrap()` needs no "
                f"images and no daemon."
            )
        return [path, *self.options, *arguments]

    async def ask(self, *arguments: str, seconds: float = 60.0) -> Answer:
        """Call it and wait for its end, whatever its exit code.

        Raises `SandboxError` if it takes longer than `seconds`.
        """
        process = await asyncio.create_subprocess_exec(
            *self.words(*arguments),
            cwd=NOWHERE,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), seconds)
        except TimeoutError:
            raise SandboxError(
                f"`{self.program} {arguments[0]}` gave no answer within {seconds:g} s."
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.communicate()
        code = process.returncode
        assert code is not None
        return Answer(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    async def call(self, *arguments: str, seconds: float = 60.0) -> str:
        """What it printed. Raises what `problem` makes of a call that fails."""
        answer = await self.ask(*arguments, seconds=seconds)
        if answer.code:
            raise self.problem(arguments, answer.stderr)
        return answer.stdout

    def problem(self, arguments: Sequence[str], stderr: str) -> SandboxError:
        """The error for a call that failed: no daemon, no image, no container, or as it says."""
        said = " ".join(stderr.split())[-600:] or "nothing"
        if NO_DAEMON.search(stderr):
            return SandboxError(
                f"`{self.program}` reaches no daemon. Start it, or have this user in its group; it "
                f"said: {said}"
            )
        if NO_CONTAINER.search(stderr):
            return SandboxLost(f"The container is gone; `{self.program}` said: {said}")
        if NO_IMAGE.search(stderr):
            return SandboxError(
                f"`{self.program}` has no such image. Build or pull it first, or name another in "
                f"`SandboxSpec(image=...)`; it said: {said}"
            )
        return SandboxError(f"`{self.program} {arguments[0]}` failed; it said: {said}")


def this_process() -> str:
    """A name for this process that no other has had, and whose life others can look up."""
    return f"{_boot()}.{os.getpid()}.{_started(os.getpid())}"


def has_ended(owner: str) -> bool:
    """Whether the process of `this_process` has ended; False for one that cannot be seen here."""
    boot, _, rest = owner.rpartition(".")[0].rpartition(".")
    started = owner.rpartition(".")[2]
    return boot == _boot() and rest.isdigit() and _started(int(rest)) != started


def _boot() -> str:
    """This start of this machine, and the process namespace: ids mean something only in both."""
    with contextlib.suppress(OSError):
        namespace = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{namespace}"
    return "unknown"


def _started(pid: int) -> str:
    """When a process started, in ticks since the machine did; empty if there is none."""
    with contextlib.suppress(OSError):
        # The name in parentheses can hold anything: count from its end.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
