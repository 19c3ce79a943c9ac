"""The files of a sandbox that lives on: opened inside by the keeper, read and written here."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from rolecraft.errors import UsageError
from rolecraft.sandboxes._download import (
    TRANSFER_SECONDS,
    check_max_bytes,
    download_limit,
    read_open,
    take_out,
)
from rolecraft.sandboxes._keeper_client import Keeper, KeeperError, KeptProcess
from rolecraft.sandboxes._keeper_streams import read_all
from rolecraft.sandboxes._output import HeadAndTail
from rolecraft.sandboxes._transfer import PIECE, pack
from rolecraft.sandboxes.base import SandboxLimits, as_bytes
from rolecraft.sandboxes.live import SandboxFileError, SandboxSpec

Result = TypeVar("Result")
REASONS = {
    errno.ENOENT: "there is no such file",
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a part of the path is no folder",
    errno.ENXIO: "it is not a file",
    errno.ELOOP: "its links lead nowhere",
    errno.EACCES: "it may not be opened",
    errno.EROFS: "it is outside of what can be written",
}
"""The system's errors that are about a path, in words."""


class KeptFiles:
    """What `KeptSandbox` does with files."""

    folder: str
    spec: SandboxSpec
    _keeper: Keeper
    _number: int

    @abstractmethod
    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] = {},
        limits: SandboxLimits | None = None,
        seconds: float | None = None,
        transfer: bool = False,
    ) -> KeptProcess:
        """Start a process inside."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `SandboxLost` if the sandbox was closed."""

    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        """See `LiveSandbox.read`."""
        check_max_bytes("read", max_bytes)
        fd = await self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        _regular(fd, path)
        reading = asyncio.ensure_future(
            asyncio.to_thread(_and_close, lambda fd: read_open(fd, path, max_bytes), fd)
        )
        reading.add_done_callback(_retrieve)
        try:
            return await asyncio.shield(reading)  # the thread closes the file, also when cancelled
        except OSError as error:  # some files of /proc do that
            raise SandboxFileError(path, error.strerror or str(error)) from error

    async def write(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """See `LiveSandbox.write`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK
        fd = await self.open(path, flags, mode=0o755 if executable else 0o644, parents=True)
        mode = _regular(fd, path)
        with os.fdopen(fd, "wb", buffering=0):
            try:
                data = as_bytes(content)
                if len(data) < 65536:  # into memory: no need of a thread
                    _write_file(fd, data)
                else:
                    await asyncio.to_thread(_write_file, fd, data)
                if executable and not mode & 0o100:
                    os.fchmod(fd, stat.S_IMODE(mode) | 0o111)
            except OSError as error:
                raise SandboxFileError(path, error.strerror or str(error)) from error

    async def upload(self, source: str | Path, path: str) -> None:
        """See `LiveSandbox.upload`."""
        if not await asyncio.to_thread(os.path.exists, source):
            raise UsageError(f"`upload({str(source)!r})`: there is no such file or folder.")

        def send(archive: int) -> None:
            with contextlib.suppress(BrokenPipeError):  # it says why on its standard error
                for piece in pack(Path(source)):
                    _write_file(archive, piece)

        await self._transfer("unpack", path, send)

    async def download(
        self, path: str, target: str | Path, *, max_bytes: int | None = None
    ) -> None:
        """See `LiveSandbox.download`."""
        most = download_limit(max_bytes, self.spec.limits)

        def take(archive: int) -> None:
            take_out(path, iter(lambda: os.read(archive, PIECE), b""), Path(target), most)

        await self._transfer("pack", path, take)

    async def _transfer(self, direction: str, path: str, work: Callable[[int], None]) -> None:
        """Have an archive of `path` made or unpacked inside, while `work` does its other end."""
        where = str(PurePosixPath(self.folder, path))
        process = await self.start(
            [direction, where], cwd="/", transfer=True, seconds=TRANSFER_SECONDS
        )
        archive, other = process.stdout, process.stdin
        if direction == "unpack":
            archive, other = other, archive
        os.close(other)
        os.set_blocking(archive, True)
        said = HeadAndTail(4096)
        working = asyncio.ensure_future(asyncio.to_thread(_and_close, work, archive))
        working.add_done_callback(_retrieve)
        try:
            await read_all(process.stderr, said)
            end = await process.ending()
            await asyncio.wait([working])
        except BaseException:
            process.kill()
            await asyncio.wait([working])
            raise
        finally:
            os.close(process.stderr)
        failed = working.exception()
        if isinstance(failed, SandboxFileError):  # it has hung up, of which the other end speaks
            raise failed
        if end.why == "timeout":
            raise SandboxFileError(path, f"the transfer took longer than {TRANSFER_SECONDS:g} s")
        if end.code != 0:
            raise SandboxFileError(
                path, said.text or f"the transfer ended with exit code {end.code}"
            )
        if failed is not None:
            raise failed

    async def open(self, path: str, flags: int, *, mode: int = 0, parents: bool = False) -> int:
        """Open a file or folder inside; a link leads to where it does for a command.

        `parents` makes the folders it is in. Raises `SandboxFileError` if that cannot be.
        """
        self._check_open()
        if not path or "\0" in path:
            raise SandboxFileError(path, "a path is not empty and has no NUL character")
        try:
            fds = await self._keeper.ask(
                "open",
                box=self._number,
                path=str(PurePosixPath(self.folder, path)),
                flags=flags,
                mode=mode,
                parents=parents,
            )
        except KeeperError as error:
            if error.errno is None:
                raise
            reason = REASONS.get(error.errno) or os.strerror(error.errno)
            raise SandboxFileError(path, reason) from error
        return fds[0]


def _regular(fd: int, path: str) -> int:
    """The mode of an open file, which is closed if it is something else."""
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise SandboxFileError(path, f"it is {kind}")
    return mode


def _retrieve(done: asyncio.Future[Any]) -> None:
    """Look at its exception, which nobody else may, once whoever waited was cancelled."""
    if not done.cancelled():
        done.exception()


def _and_close(work: Callable[[int], Result], fd: int) -> Result:
    try:
        return work(fd)
    finally:
        os.close(fd)


def _write_file(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
