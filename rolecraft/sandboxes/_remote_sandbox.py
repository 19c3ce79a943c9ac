"""A sandbox, its shells and its snapshots on a server, as a client has them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from rolecraft._listening import LOOPBACK
from rolecraft.errors import UsageError
from rolecraft.sandboxes._download import check_max_bytes, download_limit, take_out
from rolecraft.sandboxes._lasting import Closes
from rolecraft.sandboxes._output import listener
from rolecraft.sandboxes._remote_client import Client, Into
from rolecraft.sandboxes._remote_wire import (
    Done,
    Endpoint,
    LimitsBody,
    LineBody,
    Made,
    Nothing,
    RunBody,
    ShellBody,
)
from rolecraft.sandboxes._transfer import most_of_archive, pack
from rolecraft.sandboxes.base import Execution, SandboxLimits, as_bytes, checked
from rolecraft.sandboxes.live import (
    LiveSandbox,
    SandboxFileError,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
)

_PIECE = 1 << 20


@dataclass(eq=False)
class Owner:
    """What the sandboxes of one `Remote` share: its client, and who is open."""

    client: Client
    opened: Callable[[object], None]
    closed: Callable[[object], None]

    async def sandbox(self, make: Awaitable[Made], spec: SandboxSpec) -> RemoteSandbox:
        made = await make
        sandbox = RemoteSandbox(self, made.id, spec, made.folder)
        self.opened(sandbox)
        return sandbox


class RemoteShell:
    """See `Shell`. Lines are sent one after the other, as they were given."""

    def __init__(self, owner: Owner, path: str) -> None:
        self._owner, self._path = owner, path
        self._turn = asyncio.Lock()
        self.alive = True

    async def run(
        self, line: str, *, seconds: float | None = None, output_bytes: int | None = None
    ) -> Execution:
        """See `Shell.run`."""
        if seconds is not None and not seconds > 0:
            raise UsageError(f"`seconds={seconds!r}` must be above 0.")
        body = LineBody(line=line, seconds=seconds, output_bytes=output_bytes)
        async with self._turn:
            if not self.alive:
                raise SandboxLost(
                    "The shell is gone: it was closed, a line ended it, or its sandbox was forked "
                    "or kept as a snapshot. Start another with `shell()`."
                )
            try:
                done = await self._owner.client.do(
                    Done, "POST", f"{self._path}/run", body, hear=listener()
                )
            except SandboxLost:
                self.alive = False
                raise
            self.alive = done.alive
            return done.execution

    async def interrupt(self) -> None:
        """See `Shell.interrupt`."""
        if self.alive:
            await self._owner.client.do(Nothing, "POST", f"{self._path}/interrupt", Nothing())

    async def close(self) -> None:
        """See `Shell.close`."""
        if self.alive:
            self.alive = False
            await self._owner.client.ask("DELETE", self._path)


class RemoteSnapshot:
    """See `Snapshot`."""

    def __init__(self, owner: Owner, name: str, spec: SandboxSpec) -> None:
        self._owner, self._spec, self.id = owner, spec, name
        self._path = f"/v1/snapshots/{name}"
        self._closed = False

    async def create(self) -> LiveSandbox:
        """See `Snapshot.create`."""
        make = self._owner.client.do(Made, "POST", f"{self._path}/create", Nothing())
        return await self._owner.sandbox(make, self._spec)

    async def close(self) -> None:
        """See `Snapshot.close`."""
        if not self._closed:
            self._closed = True
            self._owner.closed(self)
            await self._owner.client.ask("DELETE", self._path)


class RemoteSandbox(Closes):
    """See `LiveSandbox`. It has `endpoint` (`Ports`) too, if the server's provider has."""

    def __init__(self, owner: Owner, name: str, spec: SandboxSpec, folder: str) -> None:
        self.id, self.spec, self.folder = name, spec, folder
        self._owner, self._client = owner, owner.client
        self._path = f"/v1/sandboxes/{name}"
        self._shells: weakref.WeakSet[RemoteShell] = weakref.WeakSet()
        self._closed = False

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
        body = run_body(command, files, stdin, limits, cwd=cwd, env=env)
        done = await self._client.do(Done, "POST", f"{self._open}/run", body, hear=listener())
        return done.execution

    async def shell(self, *, cwd: str = "", env: Mapping[str, str] = {}) -> RemoteShell:
        """See `LiveSandbox.shell`."""
        body = ShellBody(cwd=cwd, env=dict(env))
        made = await self._client.do(Made, "POST", f"{self._open}/shells", body)
        shell = RemoteShell(self._owner, f"{self._path}/shells/{made.id}")
        self._shells.add(shell)
        return shell

    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        """See `LiveSandbox.read`."""
        check_max_bytes("read", max_bytes)
        asked: dict[str, str | int] = {"path": path, "max_bytes": max_bytes}
        return await self._client.ask("GET", f"{self._open}/file", params=asked)

    async def write(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """See `LiveSandbox.write`."""
        data = as_bytes(content)
        most = (await self._client.learn()).max_body
        if len(data) > most:
            raise SandboxFileError(path, f"it has {len(data)} bytes, and the server takes {most}")
        asked: dict[str, str | int] = {"path": path, "executable": int(executable)}
        await self._client.do(Nothing, "PUT", f"{self._open}/file", data, params=asked)

    async def upload(self, source: str | Path, path: str) -> None:
        """See `LiveSandbox.upload`."""
        with tempfile.TemporaryFile() as archive:
            await asyncio.to_thread(packed, Path(source), archive)
            await send_archive(
                self._client, f"{self._open}/archive", archive, str(source), {"path": path}
            )

    async def download(
        self, path: str, target: str | Path, *, max_bytes: int | None = None
    ) -> None:
        """See `LiveSandbox.download`. The server sends no more than its `--max-upload`."""
        most = download_limit(max_bytes, self.spec.limits)
        with tempfile.TemporaryFile() as archive:
            asked: dict[str, str | int] = {"path": path, "max_bytes": most}
            # The server may be anybody's: what it sends is looked at as if a sandbox had sent it.
            into = Into(archive, most_of_archive(most))
            await self._client.ask("GET", f"{self._open}/archive", params=asked, into=into)
            await asyncio.to_thread(take_out, path, _pieces_of(archive), Path(target), most)

    async def snapshot(self) -> RemoteSnapshot:
        """See `LiveSandbox.snapshot`."""
        made = await self._client.do(Made, "POST", f"{self._open}/snapshot", Nothing())
        self._end_shells()
        snapshot = RemoteSnapshot(self._owner, made.id, self.spec)
        self._owner.opened(snapshot)
        return snapshot

    async def fork(self) -> RemoteSandbox:
        """See `LiveSandbox.fork`."""
        make = self._client.do(Made, "POST", f"{self._open}/fork", Nothing())
        sandbox = await self._owner.sandbox(make, self.spec)
        self._end_shells()
        return sandbox

    async def endpoint(self, port: int) -> str:
        """See `Ports.endpoint`. Raises `SandboxRefused` if the server's provider has no ports, or
        has them on a server's own address that is not this machine's.
        """
        answer = await self._client.ask("GET", f"{self._open}/ports/{port}")
        address = Endpoint.model_validate_json(answer).address
        here = urlsplit(self._client.url).hostname in LOOPBACK
        if urlsplit(f"//{address}").hostname in LOOPBACK and not here:
            raise SandboxRefused(
                "Remote",
                ["ports"],
                f"The server's provider has port {port} at {address} of the server's own machine.",
            )
        return address

    async def close(self) -> None:
        """See `LiveSandbox.close`."""
        if self._closed:
            return
        self._closed = True
        self._end_shells()
        self._owner.closed(self)
        await self._client.ask("DELETE", self._path)

    @property
    def _open(self) -> str:
        """Its path. Raises `SandboxLost` if it was closed."""
        if self._closed:
            raise SandboxLost("The sandbox is closed.")
        return self._path

    def _end_shells(self) -> None:
        for shell in self._shells:
            shell.alive = False
        self._shells.clear()

    def __repr__(self) -> str:
        return f"<RemoteSandbox at {self._client.url}{', closed' if self._closed else ''}>"


def run_body(
    command: Sequence[str],
    files: Mapping[str, str | bytes],
    stdin: str | bytes,
    limits: SandboxLimits | None,
    *,
    cwd: str = "",
    env: Mapping[str, str] = {},
) -> RunBody:
    """Raises `UsageError` for a command or a path that cannot be."""
    contents = checked(command, files)
    return RunBody(
        command=list(command),
        files=contents,
        stdin=as_bytes(stdin),
        limits=None if limits is None else LimitsBody.of(limits),
        cwd=cwd,
        env=dict(env),
    )


def packed(source: Path, into: IO[bytes]) -> str:
    """Write a file or a folder as an archive; returns its SHA-256, in hexadecimal.

    Raises `UsageError` if there is none, `SandboxError` if it cannot be read.
    """
    if not source.exists():
        raise UsageError(f"{str(source)!r} cannot be sent: there is no such file or folder.")
    digest = hashlib.sha256()
    for piece in pack(source):
        into.write(piece)
        digest.update(piece)
    return digest.hexdigest()


async def send_archive(
    client: Client, path: str, archive: IO[bytes], what: str, params: Mapping[str, str | int]
) -> None:
    """Send a file as the body of a PUT. Raises `UsageError` if it is more than the server takes."""
    size, most = archive.seek(0, os.SEEK_END), (await client.learn()).max_upload
    if size > most:
        raise UsageError(
            f"{what!r} has {size} bytes as an archive, and the sandbox server takes {most}. Start "
            f"it with a larger `--max-upload`."
        )

    async def pieces() -> AsyncIterator[bytes]:
        archive.seek(0)
        while piece := await asyncio.to_thread(archive.read, _PIECE):
            yield piece

    await client.do(Nothing, "PUT", path, pieces, params=params)


def _pieces_of(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(_PIECE):
        yield piece
