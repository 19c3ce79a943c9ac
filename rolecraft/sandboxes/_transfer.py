"""Files and folders on their way into a sandbox and out of it: tar archives, piece by piece.

`pack` makes an archive of what lies here, `unpack` puts one at a place and writes nowhere else,
whoever has made it. Both use memory for one piece at a time.

An archive has either one regular file, or a folder as `.` and what is in it by relative names.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from tarfile import EOFHeaderError  # type: ignore[attr-defined]
from typing import Self

from rolecraft.errors import SandboxError

PIECE = 2**16
BLOCK = tarfile.BLOCKSIZE


class TooLarge(SandboxError):
    """An archive has more than was allowed."""


def most_of_archive(max_bytes: int) -> int:
    """How long an archive may be whose files have `max_bytes`: there are headers, and padding."""
    return 2 * max_bytes + 64 * 2**20


def pack(source: Path) -> Iterator[bytes]:
    """A file or a folder as a tar archive, in pieces of at most 64 KiB.

    Links stay links. Sockets, pipes and devices are left out; so are owners. Raises `SandboxError`
    for what cannot be read, and for folders in folders to a depth that nobody needs.
    """
    try:
        yield from _pack_one(source, "." if source.is_dir() else source.name, follow=True)
    except (OSError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "its folders are too deep"
        raise SandboxError(f"`{source}` cannot be packed: {why}.") from error
    yield bytes(2 * BLOCK)


def _pack_one(path: Path, name: str, *, follow: bool = False) -> Iterator[bytes]:
    status = path.stat() if follow else path.lstat()
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
        yield _header(info)
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries)
        for each in names:
            yield from _pack_one(path / each, f"{name}/{each}")
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
        yield _header(info)
    elif stat.S_ISREG(status.st_mode):
        # By now it may be a pipe, which must not be waited for, or a link.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        try:
            file = open(os.open(path, flags), "rb")  # noqa: SIM115 (closed below)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                return
            raise
        with file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return
            info.size = left = status.st_size
            yield _header(info)
            while left and (piece := file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece
            while left:  # it has become shorter meanwhile
                yield bytes(min(PIECE, left))
                left -= min(PIECE, left)
        yield bytes(-info.size % BLOCK)


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def unpack(
    pieces: Iterable[bytes],
    target: Path,
    *,
    max_bytes: int | None = None,
    links_out: bool = False,
) -> list[str]:
    """Put what an archive has at `target`, and say which names were left out.

    Nothing is written outside of `target`. Left out are absolute names and names with `..`, links
    that lead out, hard links to what the archive has not brought, devices, pipes and sockets, and
    whatever would go through a link that is there. Set-user-id and write rights of others are
    dropped, and owners. With `links_out` links that lead out are made, but nothing goes through
    them: for a folder that a sandbox begins with. Raises `SandboxError` for what is no archive, and
    `TooLarge` for files of more than `max_bytes` together; what came before stays. What is all
    zeros takes no room on disk.
    """
    from rolecraft.sandboxes._unpack import Unpacking

    most = None if max_bytes is None else most_of_archive(max_bytes)
    with Unpacking(target, max_bytes, links_out=links_out) as unpacking:
        try:
            reader = _Reader(pieces, most)
            with tarfile.open(fileobj=reader, mode="r|", tarinfo=_BoundedInfo) as archive:
                while (info := archive.next()) is not None:
                    archive.members = []  # type: ignore[attr-defined]  # else it keeps all of them
                    unpacking.add(info, archive.extractfile(info) if info.isreg() else None)
                if not getattr(archive, "ended", False):
                    raise tarfile.ReadError("it ends too early")
        except (tarfile.TarError, UnicodeError, ValueError, EOFError) as error:
            raise SandboxError(f"An archive for `{target}` cannot be read: {error}.") from error
        return unpacking.finish()


class _BoundedInfo(tarfile.TarInfo):
    """Refuses names and headers that would have to be read into memory whole, and notes the end."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except EOFHeaderError:
            tarfile.ended = True  # type: ignore[attr-defined]
            raise

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in (*tarfile.REGULAR_TYPES, tarfile.CONTTYPE) and self.size > 2**20:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


class _Reader(io.RawIOBase):
    """Pieces as a file, `most` bytes of them at most: a million empty files are much, too."""

    def __init__(self, pieces: Iterable[bytes], most: int | None) -> None:
        self._pieces, self._left, self._most = iter(pieces), b"", most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._left = piece
            if self._most is not None:
                self._most -= len(piece)
                if self._most < 0:
                    raise TooLarge("An archive is larger than is allowed: it has too many files.")
        if size < 0:
            size = len(self._left)
        taken, self._left = self._left[:size], self._left[size:]
        return taken
