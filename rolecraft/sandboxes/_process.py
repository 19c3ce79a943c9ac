"""A process that was started in a sandbox, however the provider starts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable


class Started(Protocol):
    """A process with three pipes. The file descriptors are this process's ends, non-blocking."""

    stdin: int
    stdout: int
    stderr: int

    async def wait(self) -> int:
        """Its exit code, 128 + n where signal n ended it."""
        ...

    def signal(self, number: int) -> None:
        """Send its process group a signal; nothing if it has ended."""
        ...

    def kill(self) -> None:
        """Kill it and everything that it started."""
        ...


@runtime_checkable
class Prunable(Protocol):
    """A `Started` of a provider that knows by itself what a process has started."""

    async def kill_recent(self, seconds: float) -> None:
        """Kill what it has started in the last `seconds`, and not it itself."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A `Started` of a provider that knows whether it, or what it started, had too much memory."""

    def killed_for_memory(self) -> bool:
        """Whether a process was killed for that since the last time that this was asked."""
        ...


class Starter(Protocol):
    """What starts processes in one sandbox."""

    async def start(
        self, argv: Sequence[str], *, cwd: str = "", env: Mapping[str, str] = {}
    ) -> Started:
        """Start a program. Raises `SandboxLost` if the sandbox is gone."""
        ...
