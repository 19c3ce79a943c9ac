"""Files of a work folder that lies on this machine."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from rolecraft.sandboxes._download import read_open
from rolecraft.sandboxes.live import SandboxFileError


def place(root: Path, path: str) -> Path:
    """Where `path` of the work folder `root` is, links followed.

    Raises `SandboxFileError` if that is not in `root`.
    """
    if "\0" in path:
        raise SandboxFileError(path, "a path has no NUL character")
    try:
        found = Path(root, path).resolve()
    except (OSError, RuntimeError) as error:  # a ring of links
        raise SandboxFileError(path, f"it leads nowhere ({error})") from error
    if not found.is_relative_to(root.resolve()):
        raise SandboxFileError(path, "it is outside of the work folder")
    return found


def read_file(root: Path, path: str, max_bytes: int) -> bytes:
    """A file's content. Raises `SandboxFileError` if it is no file, or too large."""
    try:
        fd = os.open(place(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb"):
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
                raise SandboxFileError(path, f"it is {kind}")
            return read_open(fd, path, max_bytes)
    except OSError as error:
        raise SandboxFileError(path, _reason(error)) from error


def write_file(root: Path, path: str, content: bytes, *, executable: bool = False) -> None:
    """Write a file, its folders too. Raises `SandboxFileError` if that cannot be."""
    target = place(root, path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            raise SandboxFileError(path, "it is no regular file")
        target.write_bytes(content)
        if executable:
            target.chmod(target.stat().st_mode | 0o111)
    except OSError as error:
        raise SandboxFileError(path, _reason(error)) from error


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder: files, folders and links as they are; sockets, pipes and devices not."""

    def special(folder: str, names: list[str]) -> set[str]:
        modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
        kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
        return {name for name, mode in modes.items() if not any(is_(mode) for is_ in kinds)}

    shutil.copytree(source, target, symlinks=True, ignore=special)


def free_of(folder: Path) -> None:
    """Delete a folder: also what a command has taken its rights from, and however deep it is.

    Folders in folders are first moved to the top, so that no path is long and nothing recurs.
    Nothing may run in it any more.
    """
    try:
        top = _own(folder)
    except FileNotFoundError:
        return
    try:
        numbers = itertools.count()
        while names := os.listdir(top):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                _empty(name, top, numbers)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)


def _empty(name: str, top: int, numbers: Iterator[int]) -> None:
    """Delete what a folder has, and move its folders to `top`."""
    fd = _own(name, top)
    try:
        for each in os.listdir(fd):
            if not _is_folder(each, fd):
                os.unlink(each, dir_fd=fd)
                continue
            os.close(_own(each, fd))  # else it may not be moved
            while True:
                try:
                    os.rename(each, f"{next(numbers)}", src_dir_fd=fd, dst_dir_fd=top)
                    break
                except OSError as error:  # there is something of that name
                    if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                        raise
    finally:
        os.close(fd)


def _own(name: str | Path, parent: int | None = None) -> int:
    """Open a folder, never through a link, and take all rights to it."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, os.O_RDONLY | flags, dir_fd=parent)
    except PermissionError:  # a file that is not open for reading has its mode set by this name
        held = os.open(name, os.O_PATH | flags, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{held}", 0o700)
            return os.open(".", os.O_RDONLY | flags, dir_fd=held)
        finally:
            os.close(held)
    os.fchmod(fd, 0o700)
    return fd


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _reason(error: OSError) -> str:
    """What went wrong, in words."""
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case IsADirectoryError():
            return "it is a folder"
        case NotADirectoryError() | FileExistsError():
            return "a part of the path is no folder"
        case _:
            return (error.strerror or str(error)).lower()
