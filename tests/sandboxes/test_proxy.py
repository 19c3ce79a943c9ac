"""The proxy of an allow-list against commands that want all of it, or what they are not allowed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator

import pytest

from rolecraft.sandboxes import _keeper_proxy as module
from rolecraft.sandboxes._keeper_proxy import LONGEST_HEAD, MOST, Proxy
from rolecraft.sandboxes._proxy_request import parse


class Far:
    """A server out there, which keeps all that it got and answers once it has `enough` of it."""

    def __init__(self) -> None:
        self.got: list[bytearray] = []
        self.enough = b"\r\n\r\n"
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = bytearray()
        self.got.append(data)
        with contextlib.suppress(OSError):
            while self.enough not in data and (piece := await reader.read(65_536)):
                data += piece
            if self.enough in data:
                with contextlib.suppress(TimeoutError):  # what should not come has time to
                    data += await asyncio.wait_for(reader.read(65_536), 0.2)
                writer.write(b"HTTP/1.1 200 OK\r\n\r\nanswer")
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def proxied(*, resolves: bool = True) -> AsyncIterator[tuple[int, Far]]:
    """A proxy's port, and the server that its one allowed host is."""

    async def resolve(name: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", port)]

    far = Far()
    there = await asyncio.start_server(far.serve, "127.0.0.1", 0)
    far.port = there.sockets[0].getsockname()[1]
    proxy = Proxy(
        (f"ok.test:{far.port}", ".slow.test"),
        resolve=resolve if resolves else None,
        reachable=lambda address: True,
    )
    here = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=LONGEST_HEAD)
    async with here, there:
        yield here.sockets[0].getsockname()[1], far


async def ask(port: int, data: bytes) -> bytes:
    """What comes back, to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(-1), 60)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_no_more_than_32_connections_are_kept_open_and_then_others_have_their_turn() -> None:
    """1200 idle ones took every file descriptor of Rolecraft."""
    async with proxied() as (port, far):
        request = b"GET http://ok.test:%d/ HTTP/1.1\r\n\r\n" % far.port
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST)]
        for _ in range(3):
            assert (await ask(port, b"")).startswith(b"HTTP/1.1 503")
        for _, writer in idle[:2]:
            writer.close()
        while not (answer := await ask(port, request)).endswith(b"answer"):
            assert answer == b"" or answer.startswith(b"HTTP/1.1 503")
        for _, writer in idle:
            writer.close()


async def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.1)
    async with proxied() as (port, _):
        assert (await ask(port, b"GET http://ok.te")).startswith(b"HTTP/1.1 408")


async def test_a_tunnel_in_which_nothing_moves_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.3)
    async with proxied() as (port, far):
        answer = await ask(port, b"CONNECT ok.test:%d HTTP/1.1\r\n\r\n" % far.port)
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
        await asyncio.sleep(0)
        assert far.got == [b""]


async def test_names_that_are_never_found_hold_up_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were looked up in the threads that all of Rolecraft shares."""
    found = threading.Event()

    def getaddrinfo(*words: object, **more: object) -> list[object]:
        found.wait(120)
        raise socket.gaierror("there is no such name")

    async with proxied(resolves=False) as (port, _):
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        head = b"GET http://%d.slow.test/ HTTP/1.1\r\n\r\n"
        asking = [asyncio.create_task(ask(port, head % number)) for number in range(MOST)]
        await asyncio.sleep(0.2)
        works = [asyncio.to_thread(lambda: "done") for _ in range(MOST)]
        assert await asyncio.wait_for(asyncio.gather(*works), 60) == ["done"] * MOST
        found.set()
        for answer in await asyncio.gather(*asking):
            assert answer.startswith(b"HTTP/1.1 502")


TO = b"POST http://ok.test:%d/ HTTP/1.1\r\n"


@pytest.mark.parametrize(
    "request_of_a_sandbox",
    [
        TO + b"Host: ok.test\nHost: other.test\r\n\r\n",
        TO + b"Host: ok.test\rHost: other.test\r\n\r\n",
        TO + b"Host: ok.test\r\nHost: other.test\r\n\r\n",
        TO + b"Accept: a\r\n Host: other.test\r\n\r\n",
        TO + b"Host : ok.test\r\n\r\n",
        TO + b"No field\r\n\r\n",
        TO + b"A: \0\r\n\r\n",
        TO + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        TO + b"Content-Length: +3\r\n\r\nabcd",
        TO + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        TO + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"GET http://ok.test:%d/\nHost:x HTTP/1.1\r\n\r\n",
        b"GET  http://ok.test:%d/ HTTP/1.1\r\n\r\n",
        b"GET http://ok.test:%d/ HTTP/2.0\r\n\r\n",
        b"GET http://ok.test\\@other.test:%d/ HTTP/1.1\r\n\r\n",
        b"CONNECT ok.test:%d/x HTTP/1.1\r\n\r\n",
        b"CONNECT x@ok.test:%d HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_can_be_read_in_two_ways_is_refused_and_not_sent_on(
    request_of_a_sandbox: bytes,
) -> None:
    async with proxied() as (port, far):
        answer = await ask(port, request_of_a_sandbox % far.port)
        assert answer.startswith(b"HTTP/1.1 400"), answer
        assert not far.got


async def test_ports_that_the_list_does_not_name_are_refused() -> None:
    async with proxied() as (port, far):
        for target in (b"ok.test:22", b"ok.test:80", b"a.slow.test:22", b"a.slow.test:%d"):
            target = target.replace(b"%d", b"%d" % far.port)
            answer = await ask(port, b"CONNECT %b HTTP/1.1\r\n\r\n" % target)
            assert answer.startswith(b"HTTP/1.1 403"), answer
        assert not far.got


async def test_a_second_request_behind_the_first_is_not_sent_on() -> None:
    second = b"GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"
    async with proxied() as (port, far):
        to = TO % far.port
        head = b"POST / HTTP/1.1\r\nHost: ok.test:%d\r\nConnection: close\r\n" % far.port
        wanted = []
        assert (await ask(port, to + b"\r\n" + second)).endswith(b"answer")
        wanted.append(head + b"\r\n")
        far.enough = b"body"
        fields = b"X: y\r\nContent-Length: 4\r\nConnection: keep-alive\r\nProxy-X: z\r\n\r\nbody"
        assert (await ask(port, to + fields + second)).endswith(b"answer")
        wanted.append(head + b"Content-Length: 4\r\nX: y\r\n\r\nbody")
        far.enough = b"0\r\n\r\n"
        fields = (
            b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\nbody\r\n00A\r\n0123456789\r\n0\r\n\r\n"
        )
        assert (await ask(port, to + fields + second)).endswith(b"answer")
        chunks = b"4\r\nbody\r\na\r\n0123456789\r\n0\r\n\r\n"
        wanted.append(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        assert far.got == wanted


@pytest.mark.parametrize("body", [b"4\r\nbodyx\r\n0\r\n\r\n", b"x\r\n", b"-4\r\nbody\r\n"])
async def test_a_body_that_is_none_ends_the_connection(body: bytes) -> None:
    async with proxied() as (port, far):
        far.enough = b"never"
        fields = b"Transfer-Encoding: chunked\r\n\r\n"
        assert await ask(port, TO % far.port + fields + body) == b""
        assert b"0\r\n\r\n" not in far.got[0]


def test_a_path_is_sent_as_it_was_asked_for() -> None:
    for target, path in (
        ("http://ok.test", "/"),
        ("http://OK.test?q", "/?q"),
        ("http://u:p@ok.test:80//a%20b/../c?x=1#f", "//a%20b/../c?x=1"),
    ):
        request = parse(f"GET {target} HTTP/1.1\r\n\r\n".encode())
        assert request.head.split(b"\r\n")[0].decode() == f"GET {path} HTTP/1.1"
        assert request.port == 80
