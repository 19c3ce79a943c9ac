"""What comes out of a sandbox, and how much of it: no command in there fills this machine.

Invariant: nothing that a sandbox does makes `read` or `download` take more than `max_bytes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.sandboxes._transfer import TooLarge, most_of_archive, unpack
from rolecraft.sandboxes.base import SandboxLimits
from rolecraft.sandboxes.live import SandboxFileError

TRANSFER_SECONDS = 600.0
"""An upload or a download that takes longer is ended."""
TIMES_THE_DISK = 4
"""A download may be this many times the limit of disk: a base does not count towards that."""


def check_max_bytes(method: str, max_bytes: int) -> None:
    """Raise `UsageError` unless it is above 0."""
    if not max_bytes > 0:
        raise UsageError(f"`{method}(max_bytes={max_bytes!r})`: it must be above 0.")


def download_limit(max_bytes: int | None, limits: SandboxLimits) -> int:
    """`max_bytes` of a download, checked; None is four times `limits.disk_bytes`."""
    if max_bytes is None:
        return TIMES_THE_DISK * limits.disk_bytes
    check_max_bytes("download", max_bytes)
    return max_bytes


def take_out(path: str, pieces: Iterable[bytes], target: Path, max_bytes: int) -> None:
    """Unpack the archive that a download of `path` brings.

    Raises `SandboxFileError` for more than `max_bytes`, `SandboxError` for what is no archive.
    """
    try:
        unpack(pieces, target, max_bytes=max_bytes)
    except TooLarge as error:
        raise too_large(path, max_bytes) from error


def too_large(path: str, max_bytes: int) -> SandboxFileError:
    """What a download of more than `max_bytes` raises."""
    return SandboxFileError(path, f"it has more than {max_bytes} bytes, which is `max_bytes`")


def bounded(
    path: str, sink: Callable[[bytes], Any], max_bytes: int, *, archive: bool = False
) -> Callable[[bytes], None]:
    """`sink`, which gets no more than a file of `max_bytes`, or an `archive` of such files."""
    left = most_of_archive(max_bytes) if archive else max_bytes

    def take(piece: bytes) -> None:
        nonlocal left
        left -= len(piece)
        if left < 0:
            raise too_large(path, max_bytes)
        sink(piece)

    return take


def read_open(fd: int, path: str, max_bytes: int) -> bytes:
    """The content of an open file. Raises `SandboxFileError` if it has more than `max_bytes`."""
    pieces, left = [], max_bytes + 1
    while left and (piece := os.read(fd, min(left, 2**20))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        size = max(max_bytes + 1, os.fstat(fd).st_size)
        raise SandboxFileError(path, f"it has {size} bytes, `max_bytes` is {max_bytes}")
    return b"".join(pieces)
