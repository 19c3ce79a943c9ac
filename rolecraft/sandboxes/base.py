"""What a sandbox is: one command in a fresh folder, within limits, and what came of it.

Invariant: whatever the command does, `run` returns an `Execution` within its time limit, and then
nothing of the command is left running and nothing of its folder is left on disk. `SandboxError`
says that the sandbox itself could not be made; a command that fails is no error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import PurePosixPath
from typing import Literal, Protocol

from rolecraft.errors import UsageError

MIB = 2**20
MOST_SECONDS = 10**9
MOST = 2**60
"""Limits of time, and all others: what is more, some kernel or other counts wrongly. Thirty years,
and a thousand petabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What one command may use. Every limit is positive; there is no "unlimited".

    Where the machine allows less, that holds. Raises `UsageError` for a limit that cannot be held.
    """

    seconds: float = 10.0
    """Wall time; then everything is killed."""
    cpu_seconds: int = 10
    """Processor time of each process."""
    memory_bytes: int = 512 * MIB
    """Memory of all processes together. One process gets no more than four times as much address
    space, so what wants too much at once fails by itself."""
    processes: int = 64
    """Processes and threads at the same time, the sandbox's own two or three among them."""
    file_bytes: int = 16 * MIB
    """The size of each file that is written."""
    disk_bytes: int = 64 * MIB
    """All files in the work folder together."""
    output_bytes: int = 64 * 1024
    """How much of stdout, and of stderr, is kept: half of it from the start and half from the end,
    with a line between that says how many bytes were left out."""

    def __post_init__(self) -> None:
        for each in fields(self):
            limit = value = getattr(self, each.name)
            whole = each.name != "seconds"
            if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
                raise UsageError(
                    f"`SandboxLimits({each.name}={value!r})`: a limit is a "
                    f"{'whole number' if whole else 'number'}."
                )
            most = MOST_SECONDS if each.name.endswith("seconds") else MOST
            if not 0 < limit <= most:  # of what is no number, neither is true
                raise UsageError(
                    f"`SandboxLimits({each.name}={value!r})`: a limit is more than 0, and no more "
                    f"than {most:,}."
                )


DEFAULT_LIMITS = SandboxLimits()
Failure = Literal["timeout", "memory", "killed"]
KILLED = 128 + 9
"""The exit code of what SIGKILL ended."""
FILE_TOO_LARGE = 128 + 25
"""That of what SIGXFSZ ended: it wrote beyond `SandboxLimits.file_bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What came of one command."""

    exit_code: int
    """128 + n where signal n ended it, as a shell says it; 137 for what the sandbox killed."""
    stdout: str = ""
    """UTF-8; bytes that are none are replaced."""
    stderr: str = ""
    timed_out: bool = False
    """It ran into the limit of wall time or of processor time."""
    stdout_truncated: bool = False
    """The middle was left out: a line `[... 12345 bytes left out ...]` stands for it."""
    stderr_truncated: bool = False
    killed_for_memory: bool = False
    seconds: float = 0.0
    """Wall time. The one field that is another at every run: keep it out of what must repeat."""

    @property
    def ok(self) -> bool:
        """It ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out and not self.killed_for_memory

    @property
    def failure(self) -> Failure | None:
        """Why the sandbox ended it: time, memory, or a kill that the command did not ask for."""
        if self.timed_out:
            return "timeout"
        if self.killed_for_memory:
            return "memory"
        return "killed" if self.exit_code == KILLED else None

    def __str__(self) -> str:
        """What it printed and how it ended, for a role to read; the same for the same run."""
        parts = [
            self.stdout.rstrip("\n"),
            self.stderr.rstrip("\n"),
        ]
        if self.timed_out:
            parts.append("[stopped: out of time]")
        elif self.killed_for_memory:
            parts.append("[stopped: out of memory]")
        elif self.exit_code == FILE_TOO_LARGE:
            parts.append(f"[exit code {self.exit_code}: a file grew to its limit of size]")
        elif self.exit_code:
            parts.append(f"[exit code {self.exit_code}]")
        return "\n".join(part for part in parts if part)


class Sandbox(Protocol):
    """Runs commands that nobody vouches for. One object serves any number of runs at once."""

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> Execution:
        """Run a program with its arguments (no shell) in a fresh folder that holds `files`.

        `files` are by relative path. `python3` is on the path. The environment is cleared and
        nothing is inherited; stdin is empty unless given. Raises `SandboxError` if the sandbox
        cannot be made and `UsageError` for a bad path; a cancelled run is killed.
        """
        ...


def checked(command: Sequence[str], files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """The files as bytes. Raises `UsageError` for a command or a path that cannot be."""
    if isinstance(command, str) or not command or not all(isinstance(w, str) for w in command):
        raise UsageError(
            f"A sandbox runs a list of words, got {command!r}. For a shell's line write "
            f"`['sh', '-c', line]`."
        )
    if any("\0" in word for word in command):
        raise UsageError(f"No word of a command can hold a NUL character: {command!r}.")
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
            raise UsageError(
                f"`files` has the path {name!r}: give paths relative to the work folder, no `..`."
            )
    return {name: as_bytes(content) for name, content in files.items()}


def as_bytes(content: str | bytes) -> bytes:
    """Text as UTF-8, also text with characters that UTF-8 does not have.

    Raises `UsageError` for what is neither text nor bytes.
    """
    if not isinstance(content, str | bytes):
        raise UsageError(f"A sandbox takes text or bytes, got {type(content).__name__}.")
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
