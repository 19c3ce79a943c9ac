"""The files of a sandbox that we can only reach through a client.

    python3 -I -S -c THIS read ROOT PATH MOST     the content on stdout
    python3 -I -S -c THIS write ROOT PATH MODE    the content is on stdin
    python3 -I -S -c THIS folder ROOT PATH         nothing, if it is one
    python3 -I -S -c THIS pack ROOT PATH          a tar archive on stdout
    python3 -I -S -c THIS unpack ROOT PATH        a tar archive is on stdin

Paths are relative to ROOT, or absolute below it or below /tmp. A refusal is exit code 3 with the
reason on stderr. It needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tarfile
from typing import NoReturn

PIECE = 1 << 20


def refuse(reason: str) -> NoReturn:
    sys.stderr.write(reason)
    sys.exit(3)


def place(root: str, path: str) -> str:
    """Where `path` is, links followed; refused outside of ROOT and /tmp."""
    root = os.path.realpath(root)
    found = os.path.realpath(os.path.join(root, path))
    if not any(found == top or found.startswith(f"{top}/") for top in (root, "/tmp")):
        refuse("it is outside of the work folder")
    return found


def read(found: str, most: int) -> None:
    fd = os.open(found, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        refuse("it is a folder")
    if not stat.S_ISREG(status.st_mode):
        refuse("it is no regular file")
    if status.st_size > most:
        refuse(f"it has {status.st_size} bytes, `max_bytes` is {most}")
    with open(fd, "rb") as file:
        left = most + 1  # it may grow; one byte more than is allowed is told on the other side
        while left and (piece := file.read(min(left, PIECE))):
            left -= len(piece)
            sys.stdout.buffer.write(piece)


def write(found: str, mode: str) -> None:
    if os.path.isdir(found):
        refuse("it is a folder")
    if os.path.exists(found) and not os.path.isfile(found):
        refuse("it is no regular file")
    os.makedirs(os.path.dirname(found), exist_ok=True)
    with open(found, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, PIECE)
    if mode == "x":
        os.chmod(found, os.stat(found).st_mode | 0o111)


def pack(found: str) -> None:
    """One regular file, or a folder as `.` with what is in it; no devices, no owners."""

    def add(path: str, name: str) -> None:
        entry = archive.gettarinfo(path, name)
        if entry is None:  # a socket
            return
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        if entry.isreg():
            try:  # by now it may be a pipe, which must not be waited for, or a link
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    return
                raise
            with open(fd, "rb") as file:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    archive.addfile(entry, file)
        elif entry.isdir() or entry.issym() or entry.islnk():
            archive.addfile(entry)
            for each in sorted(os.listdir(path)) if entry.isdir() else ():
                add(os.path.join(path, each), f"{name}/{each}")

    if not os.path.exists(found):
        refuse("there is no such file or folder")
    name = "." if os.path.isdir(found) else os.path.basename(found)
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        archive.dereference = False
        add(found, name)


def unpack(found: str) -> None:
    """Put a folder there, into one that exists, or a file, under the name given here."""
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        archive.extraction_filter = lambda entry, _: entry  # ours; and there is a wall around
        first = archive.next()
        if first is None:
            refuse("the archive is empty")
        if first.isdir():
            os.makedirs(found, exist_ok=True)
            entry: tarfile.TarInfo | None = first
            while entry is not None:
                target = os.path.join(found, entry.name)
                if os.path.lexists(target) and not entry.isdir():
                    os.unlink(target)
                archive.extract(entry, found, set_attrs=not entry.isdir())
                if entry.isdir():
                    os.chmod(target, entry.mode | 0o700)
                entry = archive.next()
            return
        os.makedirs(os.path.dirname(found), exist_ok=True)
        content = archive.extractfile(first)
        if os.path.isdir(found) or content is None:
            refuse("it is a folder")
        with open(found, "wb") as file:
            shutil.copyfileobj(content, file, PIECE)
        os.chmod(found, first.mode)


def main(verb: str, root: str, path: str, *more: str) -> None:
    try:
        if "\0" in path:
            refuse("a path has no NUL character")
        found = place(root, path)
        if verb == "read":
            read(found, int(more[0]))
        elif verb == "write":
            write(found, more[0])
        elif verb == "folder":
            if not os.path.isdir(found):
                refuse("there is no such folder")
        elif verb == "pack":
            pack(found)
        else:
            unpack(found)
    except FileNotFoundError:
        refuse("there is no such file")
    except (NotADirectoryError, FileExistsError):
        refuse("a part of the path is no folder")
    except OSError as error:
        refuse((error.strerror or str(error)).lower())


if __name__ == "__main__":
    main(*sys.argv[1:])
