"""The folders that sandboxes begin with, on their way to a server: packed and sent once each.

Invariant: the server gets what is in the folder when the sandbox is made. A folder is packed anew
whenever any name, size, mode or time in it is another than at the last time.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import IO

from rolecraft.errors import UsageError
from rolecraft.sandboxes._remote_client import Client
from rolecraft.sandboxes._remote_sandbox import packed, send_archive


class Bases:
    """What one client knows of the folders that it sent."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, str]] = {}
        """By path: how the folder looked, and the digest of its archive."""
        self._sending: dict[str, asyncio.Task[None]] = {}

    async def digest(self, folder: Path, archive: IO[bytes]) -> str:
        """The digest of the folder's archive, which is written to `archive` if need be.

        Raises `UsageError` if the folder cannot be read.
        """
        return await asyncio.to_thread(self._digest, folder, archive)

    def _digest(self, folder: Path, archive: IO[bytes]) -> str:
        path = os.path.realpath(folder)
        look = _look(path)
        known = self._known.get(path)
        if known is not None and known[0] == look:
            return known[1]
        digest = packed(folder, archive)
        # Written to meanwhile, it is looked at anew next time.
        if _look(path) == look:
            self._known[path] = (look, digest)
        return digest

    async def send(self, client: Client, digest: str, folder: Path, archive: IO[bytes]) -> None:
        """Upload the folder; those who want the same at the same time wait for one upload."""
        sending = self._sending.get(digest)
        if sending is None:
            sending = asyncio.create_task(self._send(client, digest, folder, archive))
            self._sending[digest] = sending
            sending.add_done_callback(lambda _: self._sending.pop(digest, None))
            await sending
            return
        await asyncio.wait([sending])  # if it fails, who waited finds out, and sends it anew

    async def _send(self, client: Client, digest: str, folder: Path, archive: IO[bytes]) -> None:
        empty = archive.seek(0, os.SEEK_END) == 0  # the digest was known, and nothing was packed
        if empty and await asyncio.to_thread(packed, folder, archive) != digest:
            self._known.clear()
            raise UsageError(f"`{folder}` was changed while a sandbox was made of it.")
        await send_archive(client, f"/v1/bases/{digest}", archive, str(folder), {})


def _look(path: str) -> bytes:
    """What changes when anything in the folder does. Raises `UsageError` if it cannot be read."""
    found = hashlib.sha256()
    try:
        _look_into(path, found)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror or error}.") from error
    return found.digest()


def _look_into(path: str, found: hashlib._Hash) -> None:
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            state = entry.stat(follow_symlinks=False)
            told = (
                entry.name,
                state.st_mode,
                state.st_size,
                state.st_mtime_ns,
                state.st_ctime_ns,
                state.st_ino,
            )
            found.update(repr(told).encode("utf-8", "surrogateescape"))
            if entry.is_dir(follow_symlinks=False):
                found.update(b"(")
                _look_into(entry.path, found)
                found.update(b")")
