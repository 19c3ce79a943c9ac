"""Putting the members of an archive that anybody has made into one folder, and nowhere else.

Every folder is opened by its name in the one above, never through a link, and links are made when
all else is written. A link's target is its own folder, `..` as often as that is deep, and then
plain names: so no row of links leads out, whatever order they come in. Only where all is going to
be looked at from inside a sandbox, links may lead anywhere (`links_out`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._transfer import PIECE, TooLarge

_NOT_OURS = {
    errno.ELOOP,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENOENT,
    errno.ENAMETOOLONG,
}
"""Errors that an archive can bring about; a full disk is none."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Unpacking:
    """One archive being unpacked at `target`."""

    def __init__(self, target: Path, max_bytes: int | None, *, links_out: bool = False) -> None:
        self._target, self._left_bytes, self._links_out = target, max_bytes, links_out
        self._top: int | None = None
        self._links: list[tuple[tuple[str, ...], str]] = []
        self._modes: list[tuple[tuple[str, ...], int]] = []
        self._left_out: list[str] = []
        self._single = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._top is not None:
            os.close(self._top)

    def add(self, info: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        """Unpack one member, or note that it was left out."""
        if self._single:
            raise SandboxError(f"An archive of one file has another: {info.name!r}.")
        parts = _parts(info.name)
        try:
            if parts is None:
                raise _LeftOut
            if self._top is None:
                parts = self._begin(info, parts)
            self._add(info, parts, content)
        except (_LeftOut, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _NOT_OURS:
                raise SandboxError(f"`{self._target}/{info.name}`: {error.strerror}.") from error
            self._left_out.append(info.name)

    def finish(self) -> list[str]:
        """Make the links, set the folders' rights, and say what was left out."""
        for parts, goal in self._links:
            try:
                with self._folder(parts[:-1]) as folder:
                    _remove(parts[-1], folder)
                    os.symlink(goal, parts[-1], dir_fd=folder)
            except OSError:
                self._left_out.append("/".join(parts))
        for parts, mode in reversed(self._modes):
            with contextlib.suppress(OSError), self._folder(parts) as folder:
                os.fchmod(folder, mode & 0o755 | 0o700)
        return self._left_out

    def _begin(self, info: tarfile.TarInfo, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Open the folder in which all happens: the target, or its parent for a single file."""
        if info.isreg() and len(parts) == 1 and info.name == parts[0]:
            self._single = True
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._top = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return (self._target.name,)
        self._target.mkdir(parents=True, exist_ok=True)
        self._top = os.open(self._target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return parts

    def _add(
        self, info: tarfile.TarInfo, parts: tuple[str, ...], content: IO[bytes] | None
    ) -> None:
        if info.isdir():
            with self._folder(parts):
                self._modes.append((parts, info.mode))
        elif not parts:
            raise _LeftOut
        elif info.issym():
            if not (self._links_out or _stays_inside(parts, info.linkname)):
                raise _LeftOut
            self._links.append((parts, info.linkname))
        elif info.islnk():
            with self._file(info.linkname) as source:
                self._write(parts, info.mode, source, os.fstat(source.fileno()).st_size)
        elif content is not None and not info.issparse():
            self._write(parts, info.mode, content, info.size)
        else:
            raise _LeftOut

    def _write(self, parts: tuple[str, ...], mode: int, content: IO[bytes], size: int) -> None:
        if self._left_bytes is not None:
            self._left_bytes -= size
            if self._left_bytes < 0:
                raise TooLarge(f"An archive for `{self._target}` is larger than is allowed.")
        with self._folder(parts[:-1]) as folder:
            _remove(parts[-1], folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(parts[-1], flags, 0o600, dir_fd=folder), "wb") as file:
                _copy(content, file)
                os.fchmod(file.fileno(), mode & 0o755 | 0o600)

    @contextlib.contextmanager
    def _file(self, name: str) -> Iterator[IO[bytes]]:
        """A regular file that is there already, reached through no link."""
        parts = _parts(name)
        if not parts:
            raise _LeftOut
        with self._folder(parts[:-1], make=False) as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(parts[-1], flags, dir_fd=folder), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise _LeftOut
                yield file

    @contextlib.contextmanager
    def _folder(self, parts: tuple[str, ...], *, make: bool = True) -> Iterator[int]:
        """Open a folder below the top, through no link."""
        assert self._top is not None
        fd = os.dup(self._top)
        try:
            for part in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=fd)
                above, fd = fd, os.open(part, FOLDER, dir_fd=fd)
                os.close(above)
            yield fd
        finally:
            os.close(fd)


class _LeftOut(Exception):
    """This member is not for here."""


def _parts(name: str) -> tuple[str, ...] | None:
    """The names that a path is made of; None for one that may lead anywhere."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not name:
        return None
    return path.parts


def _stays_inside(parts: tuple[str, ...], goal: str) -> bool:
    path = PurePosixPath(goal)
    if path.is_absolute() or not goal or "\0" in goal:
        return False
    up = 0
    while up < len(path.parts) and path.parts[up] == "..":
        up += 1
    return up < len(parts) and ".." not in path.parts[up:]


def _copy(content: IO[bytes], file: IO[bytes]) -> None:
    """Copy to the end; pieces of zeros become holes, for what was sparse is not to grow."""
    while piece := content.read(PIECE):
        if piece.count(0) == len(piece):
            file.seek(len(piece), os.SEEK_CUR)
        else:
            file.write(piece)
    file.truncate()


def _remove(name: str, folder: int) -> None:
    """Delete a file or a link of this name. Raises `IsADirectoryError` for a folder."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
