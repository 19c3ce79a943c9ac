"""The way out of a sandbox with an allow-list: an HTTP proxy on this side, and no other network.

It listens in the sandbox's own network, on a socket that the keeper made there, and looks names up
itself. What is not on the list is refused with 403; so are addresses in place of names, and names
that lead into this machine or a private network, for the list is of hosts out there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rolecraft.sandboxes._proxy_request import PIECE, Refused, Request, parse, send_body

PORT = 3128
PORTS = (80, 443)
"""Where a host of the list can be reached, unless the list names `host:port`."""
LONGEST_HEAD = 65_536
MOST = 32
"""Connections of one sandbox at a time: each takes two file descriptors of this process."""
BACKLOG = 8
LOOK_UPS = 4
"""Names that one sandbox can have looked up at a time, each in a thread of its own."""
HEAD_SECONDS = 20.0
CONNECT_SECONDS = 20.0
IDLE_SECONDS = 300.0
"""After so long without a byte either way a connection is ended."""
CLOSE_SECONDS = 10.0
"""For the other side to take what it was sent last."""
UNICAST = ipaddress.IPv6Network("2000::/3")

Address = tuple[str, int]
Resolve = Callable[[str, int], Awaitable[list[Address]]]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Moved = Callable[[], None]


def allows(hosts: Iterable[str], name: str, port: int) -> bool:
    """Whether a list has a host: by its name, or as one below `.a.domain`; and its port."""
    name = name.lower().rstrip(".")
    for each in hosts:
        host, _, named = each.lower().partition(":")
        host = host.rstrip(".")
        is_host = name == host or (host.startswith(".") and name.endswith(host))
        if is_host and (port == int(named) if named else port in PORTS):
            return True
    return False


def out_there(address: str) -> bool:
    """Whether an address is of the public internet, and of no other address in disguise.

    Of IPv6 that is 2000::/3 without 6to4 and Teredo, so without NAT64 and IPv4-compatible ones.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        elif found not in UNICAST or found.sixtofour is not None or found.teredo is not None:
            return False
    return found.is_global and not found.is_multicast


class Proxy:
    """Serves one sandbox. `resolve` and `reachable` are for tests, whose hosts are on loopback."""

    def __init__(
        self,
        hosts: Iterable[str],
        *,
        resolve: Resolve | None = None,
        reachable: Callable[[str], bool] = out_there,
    ) -> None:
        self.hosts, self.resolve, self.reachable = tuple(hosts), resolve or self.look_up, reachable
        # Its own threads: a resolver that hangs is not to hold up what else this process does.
        self._threads = ThreadPoolExecutor(LOOK_UPS, thread_name_prefix="rolecraft-names")
        self._connections = 0

    async def look_up(self, name: str, port: int) -> list[Address]:
        """The addresses of a host, by this machine's resolver."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        )
        return [(str(address[0]), int(address[1])) for *_, address in found]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request, or one tunnel."""
        self._connections += 1
        try:
            try:
                if self._connections > MOST:
                    raise Refused("503 Service Unavailable", f"{MOST} connections are open.")
                await self._serve(reader, writer)
            except Refused as refused:
                text = f"{refused}\n".encode()
                answer = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\n"
                answer += f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
                writer.write(answer.encode() + text)
            except (OSError, asyncio.IncompleteReadError):
                pass  # one side hung up or was idle, which is for the other side to notice
            await _hang_up(writer, at_once=self._connections > MOST)
        finally:
            writer.transport.abort()
            self._connections -= 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise Refused("408 Request Timeout", "The head of a request did not come.") from None
        except asyncio.LimitOverrunError:
            raise Refused("431 Request Header Fields Too Large", "The head is too long.") from None
        request = parse(head)
        far_reader, far_writer = await self._connect(request.host, request.port)
        near, far = (reader, writer), (far_reader, far_writer)
        try:
            if request.tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _both_ways(near, far, seconds=IDLE_SECONDS)
            else:
                far_writer.write(request.head)
                await _until_idle(IDLE_SECONDS, lambda moved: _answer(request, near, far, moved))
            await _hang_up(far_writer)
        finally:
            far_writer.transport.abort()

    async def _connect(self, host: str, port: int) -> Stream:
        forbidden = "403 Forbidden"
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(host)
            raise Refused(forbidden, f"{host} is an address; the allow-list has names.")
        if not allows(self.hosts, host, port):
            raise Refused(forbidden, f"{host}:{port} is not on the sandbox's allow-list.")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                addresses = await self.resolve(host, port)
                for address in addresses:
                    if not self.reachable(address[0]):
                        raise Refused(forbidden, f"{host} leads to {address[0]}, not out there.")
                failed: Exception = OSError("it has no address")
                for address in addresses:
                    try:
                        return await asyncio.open_connection(*address)
                    except OSError as error:
                        failed = error
                raise failed
        except (OSError, UnicodeError) as error:  # a timeout is an OSError, too
            raise Refused("502 Bad Gateway", f"{host} cannot be reached: {error}.") from error


async def _answer(request: Request, near: Stream, far: Stream, moved: Moved) -> None:
    """Send the body there, and what is answered back; the answer's end is the end of both."""

    async def send() -> None:
        try:
            await send_body(request, near[0], far[1], moved)
        except (OSError, asyncio.IncompleteReadError):
            far[1].transport.abort()  # half a request is none, and this ends the answer, too

    sending = asyncio.create_task(send())
    try:
        await _pass_on(far[0], near[1], moved)
    finally:
        sending.cancel()
        await asyncio.wait([sending])
    if not sending.cancelled():
        sending.result()


async def _both_ways(one: Stream, other: Stream, *, seconds: float | None = None) -> None:
    """Pass on what comes from each to the other, until both have ended or are idle so long."""
    try:
        await _until_idle(
            seconds,
            lambda moved: _pass_on(one[0], other[1], moved),
            lambda moved: _pass_on(other[0], one[1], moved),
        )
    finally:
        other[1].close()


async def _until_idle(
    seconds: float | None, *work: Callable[[Moved], Coroutine[Any, Any, None]]
) -> None:
    """Do all of it. Raises `TimeoutError` once none of it has `moved` for so long."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds) as limit:

        def moved() -> None:
            if seconds is not None and not limit.expired():
                limit.reschedule(loop.time() + seconds)

        tasks = [asyncio.create_task(each(moved)) for each in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moved: Moved
) -> None:
    while chunk := await reader.read(PIECE):
        moved()
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _hang_up(writer: asyncio.StreamWriter, *, at_once: bool = False) -> None:
    """Close, and wait until the other side has what it was sent; not for ever, and not at all
    `at_once`."""
    writer.close()
    if not at_once:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await writer.wait_closed()


async def listen(end: socket.socket, proxy: Proxy) -> asyncio.Server:
    """Serve a sandbox from a socket of its own network."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    end.bind(("127.0.0.1", PORT))
    return await asyncio.start_server(proxy.serve, sock=end, limit=LONGEST_HEAD, backlog=BACKLOG)


async def forward(connect: Callable[[], Awaitable[socket.socket]]) -> asyncio.Server:
    """A server on a free port of this machine that passes each connection on to a new one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(sock=await connect())
            await _both_ways((reader, writer), there)
        except OSError:
            pass  # nobody listens inside, or one side hung up: the other sees the end
        finally:
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)
