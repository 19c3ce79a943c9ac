"""Folders that clients uploaded for sandboxes to begin with, kept by what is in them.

Invariant: what lies under a digest is what the archive of that digest holds, whole. One that a
sandbox or a snapshot stands on is never taken away. Nothing is left on disk after `close`; what a
killed server left there, the next one takes away.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._transfer import TooLarge, unpack
from rolecraft.sandboxes.server.answers import NotServed

_PIECE = 1 << 20
PREFIX = "rolecraft-sandbox-server-"
_LOCK = "lock"
_ENTRY = 4096
"""Bytes that a file or a folder takes besides what is in it."""


class Bases:
    """The uploaded folders, at most `most_bytes` of them, each of at most `most_unpacked`."""

    def __init__(self, *, most_bytes: int, most_unpacked: int) -> None:
        self._most_bytes, self._most_unpacked = most_bytes, most_unpacked
        self._sizes: OrderedDict[str, int] = OrderedDict()
        """By digest; the one that was used last stands last."""
        self._users: dict[str, int] = {}
        self.folder, self._lock = Path(), -1

    def open(self) -> None:
        """Make the folder; `close` takes it away."""
        _take_away_leftovers()
        self.folder, self._lock = _own_folder()
        (self.folder / "new").mkdir(mode=0o700)

    def path(self, digest: str) -> Path:
        return self.folder / digest

    def scratch(self) -> Path:
        """A new folder for files on their way."""
        return Path(tempfile.mkdtemp(dir=self.folder / "new"))

    def scratch_file(self) -> IO[bytes]:
        """A file without a name, for what is on its way; whoever gets it closes it."""
        return tempfile.TemporaryFile(dir=self.folder / "new")

    def hold(self, digest: str) -> Callable[[], None]:
        """Keep a base until what is returned is called. Raises `NotServed` if it is not there."""
        if digest not in self._sizes:
            raise NotServed(
                f"The server has no folder {digest}: upload it first.",
                status=409,
                code="unknown_base",
            )
        self._sizes.move_to_end(digest)
        self._users[digest] = self._users.get(digest, 0) + 1

        def let_go() -> None:
            self._users[digest] -= 1
            if not self._users[digest]:
                del self._users[digest]

        return let_go

    async def put(self, digest: str, archive: IO[bytes]) -> None:
        """Unpack an archive. Raises `NotServed` if it is not what `digest` says."""
        if digest in self._sizes:
            self._sizes.move_to_end(digest)
            return
        scratch = self.scratch()
        try:
            size = await asyncio.to_thread(self._unpack, digest, archive, scratch)
            if digest not in self._sizes:  # it may have come twice at once
                await self._make_room(size)
                os.rename(scratch / "base", self.path(digest))
                self._sizes[digest] = size
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    def _unpack(self, digest: str, archive: IO[bytes], scratch: Path) -> int:
        found = hashlib.sha256()
        for piece in pieces_of(archive):
            found.update(piece)
        if found.hexdigest() != digest:
            raise NotServed(f"The archive is not {digest}: it was damaged on its way.")
        unpack_bounded(archive, scratch / "base", self._most_unpacked, links_out=True)
        if not (scratch / "base").is_dir():
            raise NotServed("A sandbox begins with a folder, and the archive holds none.")
        return _bytes_below(scratch / "base")

    async def _make_room(self, size: int) -> None:
        for digest in list(self._sizes):
            if sum(self._sizes.values()) + size <= self._most_bytes:
                break
            if digest not in self._users:
                del self._sizes[digest]
                gone = self.folder / "new" / f"{digest}-gone-{os.urandom(4).hex()}"
                os.rename(self.path(digest), gone)
                await asyncio.to_thread(shutil.rmtree, gone, ignore_errors=True)
        if sum(self._sizes.values()) + size > self._most_bytes:
            raise NotServed(
                "The server has no room for another folder: all that it has are in use.",
                status=503,
                code="overloaded",
                retry_after=5,
            )

    async def close(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)
        os.close(self._lock)


def pieces_of(file: IO[bytes]) -> Iterator[bytes]:
    """A file's content, from its begin."""
    file.seek(0)
    while piece := file.read(_PIECE):
        yield piece


def unpack_bounded(archive: IO[bytes], target: Path, most: int, *, links_out: bool = False) -> None:
    """Unpack what a client sent. Raises `NotServed` if it is no archive, or holds too much."""
    try:
        unpack(pieces_of(archive), target, max_bytes=most, links_out=links_out)
    except TooLarge as error:
        raise NotServed(
            f"What was sent holds more than the {most} bytes that this server takes, unpacked "
            f"(`--max-upload`).",
            status=413,
        ) from error
    except SandboxError as error:
        if isinstance(error.__cause__, OSError):  # of this machine, a full disk say
            raise
        raise NotServed("What was sent cannot be unpacked: it is no archive.") from error


def _bytes_below(folder: Path) -> int:
    """What a folder takes on disk, about; files without content take something too."""
    total = 0
    for at, _, files in os.walk(folder):
        sizes = [os.lstat(os.path.join(at, name)).st_size for name in files]
        total += _ENTRY + sum(size + _ENTRY for size in sizes)
    return total


def _own_folder() -> tuple[Path, int]:
    """A new folder, and the lock on it that lasts as long as this process."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another server may have taken it for a leftover before the lock was there.
        if (folder / _LOCK).exists():
            # Providers may run as another user, who must reach a base; nobody can list it.
            folder.chmod(0o711)
            return folder, lock
        os.close(lock)


def _take_away_leftovers() -> None:
    """Folders of servers that were killed: their lock is free."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or taken away by another server just now
            if folder.stat().st_uid != os.geteuid() or folder.is_symlink():
                continue
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)
