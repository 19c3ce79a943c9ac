"""The sockets on which servers of ours listen."""

from __future__ import annotations

import socket

import pytest

from rolecraft._listening import AddressTaken, bound


def test_a_connection_sends_at_once() -> None:
    """Without it an answer that is sent in two parts takes 40 ms longer."""
    with bound("127.0.0.1", 0) as listening:
        with socket.create_connection(listening.getsockname()):
            connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_an_address_that_is_taken_is_named() -> None:
    with bound("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(AddressTaken, match=f"'127.0.0.1', port {port}.*another port") as caught:
            bound("127.0.0.1", port)
    assert (caught.value.host, caught.value.port) == ("127.0.0.1", port)
    with pytest.raises(AddressTaken, match="no-such-host"):
        bound("no-such-host.invalid", 0)
