"""Places that run short commands and can do nothing else: what `SweRex` and `Kubernetes` share."""

from __future__ import annotations

import itertools
import tempfile
import uuid
from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import IO, Any, ClassVar

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._agent_link import PYTHON, Link, PolledLink
from rolecraft.sandboxes._agent_sandbox import AgentProvider, AgentSandbox
from rolecraft.sandboxes.live import (
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
    Snapshot,
    Wall,
    check_walls,
)

MAKE = "import os, sys; os.makedirs(sys.argv[1] + '/work'); os.chmod(sys.argv[1], 0o700)"


class CommandProvider(AgentProvider):
    """See `SandboxProvider`. Each sandbox is in a place of its own."""

    hint: ClassVar[str]
    """What to do about a wall that is not held."""

    def __init__(self, walls: Collection[Wall]) -> None:
        self._walls = frozenset(walls)

    @property
    def walls(self) -> frozenset[Wall]:
        """See `SandboxProvider.walls`."""
        return self._walls

    @abstractmethod
    def place(self, spec: SandboxSpec) -> CommandPlace:
        """One for a sandbox, not started. Raises `SandboxRefused`."""

    async def create(self, spec: SandboxSpec | None = None) -> AgentSandbox:
        """See `SandboxProvider.create`; the class says what is refused."""
        spec = spec or SandboxSpec()
        self.check(spec)
        sandbox = await self.make(spec)
        try:
            await sandbox.begin()
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def make(self, spec: SandboxSpec) -> AgentSandbox:
        """A sandbox with an empty work folder."""
        place = self.place(spec)
        await place.start()
        return AgentSandbox(spec, place, folder=f"{place.outer}/work")

    def check(self, spec: SandboxSpec) -> None:
        """Raise `SandboxRefused` for what no sandbox that is reached by commands alone can be."""
        name = type(self).__name__
        check_walls(name, spec, self.walls, self.hint)
        asked = {
            "AllowList": not isinstance(spec.network, str),
            "ports": bool(spec.ports),
            "root": spec.root is not None,
            "readable": bool(spec.readable),
        }
        if missing := [what for what, is_asked in asked.items() if is_asked]:
            raise SandboxRefused(name, missing, "Its settings, or its image, can have them.")


class CommandPlace:
    """See `Place` and `ShortCommands`."""

    shared = False
    hold: ClassVar[float]
    """Seconds that one call may take when nothing is new."""
    failed: str
    """What is said of one that did not start."""

    def __init__(self, provider: CommandProvider, spec: SandboxSpec) -> None:
        self.provider, self.spec = provider, spec
        self.outer = f"/tmp/rolecraft-{uuid.uuid4().hex}"
        self._numbers = itertools.count(1)

    @abstractmethod
    async def launch(self) -> None:
        """Have it take commands."""

    @abstractmethod
    async def execute(self, command: Sequence[str], *, seconds: float) -> tuple[int, str, str]:
        """See `ShortCommands.execute`."""

    @abstractmethod
    async def close(self) -> None:
        """See `Place.close`."""

    async def start(self) -> None:
        """Launch it and make the work folder. Raises `SandboxError` with what was said if not."""
        try:
            await self.launch()
            code, _, err = await self.execute([*PYTHON, MAKE, self.outer], seconds=60)
            if code:
                raise SandboxError(f"No work folder could be made: {err.strip()[-300:]}")
        except BaseException as error:
            await self.close()
            if isinstance(error, Exception) and not isinstance(error, SandboxError):
                raise SandboxError(f"{self.failed}: {error!r}") from error
            raise

    async def open(self, order: dict[str, Any]) -> Link:
        """See `Place.open`."""
        folder = f"{self.outer}/{next(self._numbers)}"
        return await PolledLink.start(self, folder, order, hold=self.hold)

    async def keep(self, sandbox: AgentSandbox) -> Snapshot:
        """See `Place.keep`: an archive on this machine."""
        archive = tempfile.TemporaryFile()  # noqa: SIM115 (it is the snapshot)
        try:
            await sandbox.pack_to(archive)
        except BaseException:
            archive.close()
            raise
        return PackedSnapshot(self.provider, self.spec, archive)


class PackedSnapshot:
    """A snapshot that is an archive on this machine, for places that have no snapshots.

    Making it and beginning with it takes as long as the work folder takes to be carried.
    """

    def __init__(self, provider: CommandProvider, spec: SandboxSpec, archive: IO[bytes]) -> None:
        self.id = uuid.uuid4().hex
        self._provider, self._spec, self._archive = provider, spec, archive

    async def create(self) -> AgentSandbox:
        """See `Snapshot.create`."""
        if self._archive.closed:
            raise SandboxLost("The snapshot was closed.")
        sandbox = await self._provider.make(self._spec)
        try:
            self._archive.seek(0)
            await sandbox.unpack_from(self._archive)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def close(self) -> None:
        """See `Snapshot.close`."""
        self._archive.close()
