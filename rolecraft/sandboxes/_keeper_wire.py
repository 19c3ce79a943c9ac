"""Messages with open files beside them, between Rolecraft and its keeper.

Standard library only: both sides import this.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

LARGE = 65_536
"""Bytes from which on a message goes through a file in memory."""
MOST_FILES = 16


def pack(message: Mapping[str, Any], fds: Sequence[int]) -> tuple[bytes, list[int], int | None]:
    """A message as bytes, the files that go with it, and which of them to close once it is sent."""
    body = json.dumps(message).encode()
    if len(body) < LARGE:
        return b"j" + body, list(fds), None
    memory = os.memfd_create("rolecraft")
    with os.fdopen(os.dup(memory), "wb") as file:
        file.write(body)
    return b"m", [memory, *fds], memory


class Wire:
    """One end of a socket that keeps messages apart (SOCK_SEQPACKET)."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def send(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send a message; it waits for room if the socket blocks, else raises BlockingIOError."""
        body, files, extra = pack(message, fds)
        try:
            socket.send_fds(self.socket, [body], files)
        finally:
            if extra is not None:
                os.close(extra)

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """The next message and its files; None at the end."""
        try:
            body, fds, _, _ = socket.recv_fds(self.socket, LARGE + 1, MOST_FILES)
        except ConnectionResetError:
            return None
        if not body:
            return None
        for fd in fds:
            os.set_inheritable(fd, False)
        if body[:1] == b"m":
            with os.fdopen(fds.pop(0), "rb") as file:
                file.seek(0)
                body = b"j" + file.read()
        message: dict[str, Any] = json.loads(body[1:])
        return message, fds
