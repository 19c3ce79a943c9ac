"""A live sandbox somewhere else: all that it does is done by agents that are started there."""

from __future__ import annotations

import asyncio
import posixpath
import tempfile
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes._agent_link import FILES, Link
from rolecraft.sandboxes._agent_process import PIECE, AgentProcess, execute, order
from rolecraft.sandboxes._download import (
    TRANSFER_SECONDS,
    bounded,
    check_max_bytes,
    download_limit,
    take_out,
)
from rolecraft.sandboxes._lasting import LastingSandbox
from rolecraft.sandboxes._shell import PipedShell
from rolecraft.sandboxes._transfer import pack
from rolecraft.sandboxes.base import (
    DEFAULT_LIMITS,
    Execution,
    SandboxLimits,
    as_bytes,
    checked,
)
from rolecraft.sandboxes.live import SandboxFileError, SandboxLost, SandboxSpec, Snapshot

REFUSED = 3
"""The exit code of `_agent_files.py` for what it does not do; stderr has the reason."""
NOTE_BYTES = 4096


class Place(Protocol):
    """Where the sandbox is: what is different between the providers."""

    shared: bool
    """Whether its control group holds more than the sandbox."""

    async def open(self, order: dict[str, Any]) -> Link:
        """Start an agent. Raises `SandboxLost` if the place is gone."""
        ...

    async def keep(self, sandbox: AgentSandbox) -> Snapshot:
        """See `LiveSandbox.snapshot`. Nothing of the sandbox runs."""
        ...

    async def close(self) -> None:
        """End it and delete its files; nothing the second time."""
        ...


class AgentProvider:
    """See `SandboxProvider` and `Sandbox`."""

    @abstractmethod
    async def create(self, spec: SandboxSpec | None = None) -> AgentSandbox:
        """See `SandboxProvider.create`."""

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> Execution:
        """See `Sandbox.run`."""
        async with await self.create(SandboxSpec(limits=limits)) as sandbox:
            return await sandbox.run(command, files=files, stdin=stdin)


class AgentSandbox(LastingSandbox):
    """See `LiveSandbox`."""

    def __init__(self, spec: SandboxSpec, place: Place, *, folder: str) -> None:
        super().__init__()
        self.id = uuid.uuid4().hex
        self.spec, self.folder, self.place = spec, folder, place

    async def begin(self) -> None:
        """Fill the work folder with what the spec says."""
        if self.spec.base is not None:
            await self.upload(self.spec.base, ".")
        await self._write_all(self.spec.files)

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits | None = None,
        cwd: str = "",
        env: Mapping[str, str] = {},
    ) -> Execution:
        """See `LiveSandbox.run`."""
        self._check_open()
        limits = limits or self.spec.limits
        checked(command, files)
        await self._write_all(files)
        link = await self._open(
            list(command), cwd=cwd, env=env, limits=limits, seconds=limits.seconds
        )
        return await execute(
            link,
            stdin=as_bytes(stdin),
            output_bytes=limits.output_bytes,
            seconds=limits.seconds,
        )

    async def start(
        self, argv: Sequence[str], *, cwd: str = "", env: Mapping[str, str] = {}
    ) -> AgentProcess:
        """See `Starter.start`."""
        self._check_open()
        limits = self.spec.limits
        return AgentProcess(
            await self._open(list(argv), cwd=cwd, env=env, limits=limits, seconds=None)
        )

    async def shell(self, *, cwd: str = "", env: Mapping[str, str] = {}) -> PipedShell:
        """See `LiveSandbox.shell`."""
        if cwd:
            await self._files("folder", cwd)
        return await super().shell(cwd=cwd, env=env)

    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        """See `LiveSandbox.read`."""
        check_max_bytes("read", max_bytes)
        data = bytearray()
        await self._files("read", path, str(max_bytes), sink=bounded(path, data.extend, max_bytes))
        return bytes(data)

    async def write(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """See `LiveSandbox.write`."""
        await self._files("write", path, "x" if executable else "-", stdin=as_bytes(content))

    async def upload(self, source: str | Path, path: str) -> None:
        """See `LiveSandbox.upload`."""
        if not await asyncio.to_thread(Path(source).exists):
            raise UsageError(f"`upload({str(source)!r})`: there is no such file or folder.")
        await self._files("unpack", path, stdin=pack(Path(source)))

    async def download(
        self, path: str, target: str | Path, *, max_bytes: int | None = None
    ) -> None:
        """See `LiveSandbox.download`."""
        most = download_limit(max_bytes, self.spec.limits)
        with tempfile.TemporaryFile() as file:
            await self._files("pack", path, sink=bounded(path, file.write, most, archive=True))
            file.seek(0)
            pieces = iter(lambda: file.read(PIECE), b"")
            await asyncio.to_thread(take_out, path, pieces, Path(target), most)

    async def snapshot(self) -> Snapshot:
        """See `LiveSandbox.snapshot`."""
        self._check_open()
        await self._end_shells()
        return await self.place.keep(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.place!r}{' (closed)' if self._closing else ''}>"

    async def pack_to(self, file: IO[bytes]) -> None:
        """Write the work folder to `file`, as an archive, which is no larger than a download."""
        most = download_limit(None, self.spec.limits)
        await self._files("pack", ".", sink=bounded(".", file.write, most, archive=True))

    async def unpack_from(self, file: IO[bytes]) -> None:
        """Fill the work folder from an archive."""
        await self._files("unpack", ".", stdin=iter(lambda: file.read(PIECE), b""))

    async def _write_all(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in checked(["true"], files).items():
            await self.write(name, content)

    async def _files(
        self,
        verb: str,
        path: str,
        *more: str,
        stdin: bytes | Iterator[bytes] = b"",
        sink: Callable[[bytes], object] | None = None,
    ) -> None:
        """Have `_agent_files.py` do something. Raises `SandboxFileError` with its reason."""
        self._check_open()
        if "\0" in path:
            raise SandboxFileError(path, "a path has no NUL character")
        limits = self.spec.limits
        words = ["python3", "-I", "-S", "-c", FILES, verb, self.folder, path, *more]
        link = await self._open(
            words, cwd="", env={}, limits=limits, seconds=TRANSFER_SECONDS, transfer=True
        )
        done = await execute(
            link,
            stdin=stdin,
            output_bytes=NOTE_BYTES,
            seconds=TRANSFER_SECONDS,
            sink=sink,
        )
        if done.exit_code == REFUSED:
            raise SandboxFileError(path, done.stderr)
        if not done.ok:
            raise SandboxError(
                f"`{path}` in the sandbox: `{verb}` ended with {done.exit_code}: "
                f"{done.stderr[-300:].strip() or done.failure or 'no word'}"
            )

    async def _open(
        self,
        argv: list[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        limits: SandboxLimits,
        seconds: float | None,
        transfer: bool = False,
    ) -> Link:
        try:
            return await self.place.open(
                order(
                    argv,
                    cwd=posixpath.join(self.folder, cwd),
                    env={"HOME": self.folder, "LANG": "C.UTF-8", **self.spec.env, **env},
                    limits=limits,
                    seconds=seconds,
                    cpu=seconds is not None and not transfer,
                    keep=None if seconds is None or transfer else limits.output_bytes,
                    memory=not transfer and (seconds is not None or self.place.shared),
                    shared=self.place.shared,
                    files=not transfer,
                )
            )
        except SandboxLost:
            self._check_open()
            raise

    async def _close(self) -> None:
        await self._end_shells()
        await self.place.close()
