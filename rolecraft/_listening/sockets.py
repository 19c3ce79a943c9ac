"""A socket on which a server of ours listens."""

from __future__ import annotations

import socket

from rolecraft.errors import RolecraftError

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Names of this machine that no other one can reach."""
# A client whose machine vanished is noticed after about a minute, and nothing is kept for it any
# more. Names that this system does not have are left out.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}


class AddressTaken(RolecraftError):
    """The server cannot listen there. Attributes: `host`, `port`."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host, self.port = host, port
        super().__init__(
            f"The server cannot listen on {host!r}, port {port}: {reason}. Choose another port; 0 "
            f"takes a free one."
        )


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `AddressTaken`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise AddressTaken(host, port, error.strerror or str(error)) from error
    # Connections that it accepts inherit these. asyncio would only set the first one on a socket
    # that was made with a protocol number, and without it an answer may take 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return listening
