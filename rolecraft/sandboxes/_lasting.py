"""What live sandboxes of all providers have in common: their shells, and their end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rolecraft.sandboxes._process import Started
from rolecraft.sandboxes._shell import PipedShell, start_shell, to_the_end
from rolecraft.sandboxes._unused import Unused
from rolecraft.sandboxes.live import LiveSandbox, SandboxLost, SandboxSpec, Snapshot


class Closes:
    """An async context that ends with `close`."""

    @abstractmethod
    async def close(self) -> None:
        """End it. A second time it does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class LastingSandbox(Closes):
    """A live sandbox whose shells are processes that `start` starts. See `LiveSandbox`."""

    spec: SandboxSpec

    def __init__(self) -> None:
        self._shells: set[PipedShell] = set()
        self._closing: asyncio.Task[None] | None = None
        self.unused = Unused()

    @property
    def lines_end(self) -> float | None:
        """See `Closing`."""
        ends = [shell.line_end for shell in self._shells if shell.alive]
        return None if None in ends else max((end for end in ends if end is not None), default=0.0)

    @abstractmethod
    async def start(
        self, argv: Sequence[str], *, cwd: str = "", env: Mapping[str, str] = {}
    ) -> Started:
        """See `Starter.start`."""

    @abstractmethod
    async def snapshot(self) -> Snapshot:
        """See `LiveSandbox.snapshot`."""

    @abstractmethod
    async def _close(self) -> None:
        """End all that runs, and delete what is left. Called once."""

    async def shell(self, *, cwd: str = "", env: Mapping[str, str] = {}) -> PipedShell:
        """See `LiveSandbox.shell`."""
        self._check_open()
        shell = await start_shell(self, limits=self.spec.limits, cwd=cwd, env=env)
        if self._closing is not None:
            await shell.close()
            self._check_open()
        self._shells = {each for each in self._shells if each.alive} | {shell}
        return shell

    async def fork(self) -> LiveSandbox:
        """See `LiveSandbox.fork`."""
        kept = await self.snapshot()
        try:
            return await kept.create()
        finally:
            await kept.close()

    async def close(self) -> None:
        """See `LiveSandbox.close`. It goes on to its end, whoever waits for it is cancelled."""
        if self._closing is None:
            self.unused.stop()
            self._closing = asyncio.create_task(self._close())
        await to_the_end(self._closing)

    def _check_open(self) -> None:
        if self._closing is not None:
            after = self.unused.closed_after
            why = "" if after is None else f": nobody used it for its `ttl_seconds`, {after:g}"
            raise SandboxLost(f"The sandbox was closed{why}.")

    async def _end_shells(self) -> None:
        shells, self._shells = self._shells, set()
        await asyncio.gather(*(shell.close() for shell in shells))
