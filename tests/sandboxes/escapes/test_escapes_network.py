"""Attacks over the network, and on the host's sockets. One test an attack."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _wall(request: pytest.FixtureRequest) -> None:
    if "attacker" in request.fixturenames:
        request.getfixturevalue("attacker").needs("network")


class Servers:
    """TCP, UDP, and UNIX sockets of the host. `reached` says who was reached."""

    def __init__(self, path: str) -> None:
        self.reached: list[str] = []
        self.path, self.name = path, f"rolecraft-{secrets.token_hex(8)}"
        self.sockets: list[socket.socket] = []
        self.ends: list[threading.Thread] = []
        tcp = self._serve("tcp", socket.AF_INET, socket.SOCK_STREAM, ("", 0))
        self.port = tcp.getsockname()[1]
        self._serve("udp", socket.AF_INET, socket.SOCK_DGRAM, ("", self.port))
        with contextlib.suppress(OSError):
            self._serve("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", self.port))
        for kind, word in ((socket.SOCK_STREAM, "stream"), (socket.SOCK_DGRAM, "datagram")):
            self._serve(f"path {word}", socket.AF_UNIX, kind, f"{path}/{word}")
            os.chmod(f"{path}/{word}", 0o777)
            self._serve(f"abstract {word}", socket.AF_UNIX, kind, f"\0{self.name}-{word}")

    def _serve(self, what: str, family: int, kind: int, address: object) -> socket.socket:
        server = socket.socket(family, kind)
        server.bind(address)  # type: ignore[arg-type]
        server.settimeout(0.05)
        if kind == socket.SOCK_STREAM:
            server.listen()
        self.sockets.append(server)

        def watch() -> None:
            while server.fileno() >= 0:
                try:
                    if kind == socket.SOCK_STREAM:
                        server.accept()[0].close()
                    else:
                        server.recvfrom(10)
                except TimeoutError:
                    continue
                except OSError:
                    return
                self.reached.append(what)

        thread = threading.Thread(target=watch)
        thread.start()
        self.ends.append(thread)
        return server

    def end(self) -> None:
        for server in self.sockets:
            server.close()
        for thread in self.ends:
            thread.join()


@pytest.fixture
def servers(outside) -> Iterator[Servers]:
    servers = Servers(str(outside))
    try:
        yield servers
    finally:
        servers.end()


def own_address() -> str:
    """An address of this machine on its network, if it is on one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


async def test_the_servers_of_the_host_are_reached_when_nothing_is_in_the_way(servers) -> None:
    """So that the tests below can fail."""
    for kind, word in ((socket.SOCK_STREAM, "stream"), (socket.SOCK_DGRAM, "datagram")):
        for address in (f"{servers.path}/{word}", f"\0{servers.name}-{word}"):
            with socket.socket(socket.AF_UNIX, kind) as client:
                client.connect(address)
                client.send(b"x") if kind == socket.SOCK_DGRAM else None
    with socket.create_connection(("127.0.0.1", servers.port)):
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("127.0.0.1", servers.port))
    for thread, server in zip(servers.ends, servers.sockets, strict=True):
        assert thread.is_alive()
        assert server.fileno() >= 0
    seen = {"tcp", "udp", "path stream", "path datagram", "abstract stream", "abstract datagram"}
    while not seen <= set(servers.reached):
        threading.Event().wait(0.01)


async def test_tcp(attacker, servers) -> None:
    """Every way to this machine, and names that mean it."""
    code = f"""
import socket
for host in ("127.0.0.1", "::1", "0.0.0.0", "127.1.2.3", {own_address()!r}, "::ffff:127.0.0.1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for protocol in (0, 6, 262, 132):  # MPTCP and SCTP are other ways to the same port
        try:
            s = socket.socket(family, socket.SOCK_STREAM, protocol); s.settimeout(1)
            s.connect((host, {servers.port})); print("connected", host, protocol)
        except OSError: pass
    try:
        s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(1)
        s.sendto(b"x", 0x20000000, (host, {servers.port})); print("opened fast", host)
    except OSError: pass
"""
    done = await attacker.python(code)
    assert done.stdout == ""
    assert servers.reached == []


async def test_udp(attacker, servers) -> None:
    """No connection is needed, and Landlock does not look at it."""
    code = f"""
import socket
for host in ("127.0.0.1", {own_address()!r}, "255.255.255.255", "224.0.0.1"):
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(b"x", (host, {servers.port}))
    except OSError: pass
"""
    await attacker.python(code)
    assert servers.reached == []


async def test_dns(attacker) -> None:
    """A name that is asked for tells whoever answers for it what was in it."""
    code = """
import socket
for host in ("example.com", "localhost.localdomain", "secret.example.org"):
    try: print("resolved", host, socket.getaddrinfo(host, 80))
    except OSError: pass
for server in ("8.8.8.8", "127.0.0.53", "1.1.1.1"):
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
        question = b"\\7example\\3com\\0\\0\\1\\0\\1"
        s.sendto(b"\\x12\\x34\\1\\0\\0\\1" + bytes(6) + question, (server, 53))
        print("answered", s.recv(512))
    except OSError: pass
"""
    assert (await attacker.python(code)).stdout == ""


async def test_abstract_sockets(attacker, servers) -> None:
    """They have no path: no mount and no file's rights are in the way."""
    code = f"""
import socket
for kind, word in ((socket.SOCK_STREAM, "stream"), (socket.SOCK_DGRAM, "datagram")):
    try:
        s = socket.socket(socket.AF_UNIX, kind)
        s.connect("\\0{servers.name}-" + word); s.send(b"x"); print("reached", word)
    except OSError: pass
try:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b"x", "\\0{servers.name}-datagram"); print("reached by a pair")
except OSError: pass
"""
    assert (await attacker.python(code)).stdout == ""
    assert servers.reached == []


async def test_sockets_with_a_path(attacker, servers) -> None:
    """Docker's, the desktop's bus, a tmux: who connects gives orders to a program of the host."""
    code = f"""
import glob, os, socket
paths = [{servers.path!r} + "/stream", {servers.path!r} + "/datagram", "/run/docker.sock",
         "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/dev/log", "/run/systemd/notify"]
for path in paths:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            s = socket.socket(socket.AF_UNIX, kind); s.connect(path); s.send(b"x")
            print("reached", path)
        except OSError: pass
    try:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        a.sendto(b"x", path); print("reached by a pair", path)
    except OSError: pass
"""
    assert (await attacker.python(code)).stdout == ""
    assert servers.reached == []


async def test_sockets_that_nobody_thinks_of(attacker) -> None:
    """Raw packets, the firewall's netlink, the hypervisor, the kernel's ciphers, io_uring."""
    code = """
import ctypes, socket
for family, kind, protocol in ((17, 3, 768), (2, 3, 1), (10, 3, 58), (16, 3, 12), (16, 3, 9),
                               (40, 1, 0), (38, 5, 0), (15, 3, 2), (31, 3, 1), (44, 3, 0)):
    try: socket.socket(family, kind, protocol)
    except OSError: continue
    print("open", family, protocol)
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0: print("io_uring")
"""
    done = await attacker.python(code)
    if attacker.way.endswith("once"):  # its network is its own, and a netlink that reaches no more
        harmless = {"", "open 16 12", "open 16 9", "open 40 0", "open 38 0", "io_uring"}
        assert set(done.stdout.split("\n")) <= harmless
        return
    assert done.stdout == ""


async def test_a_server_inside_is_not_to_be_reached_from_outside(attacker) -> None:
    """A back door that waits for somebody to knock."""
    code = """
import socket, sys
try:
    s = socket.socket(); s.bind(("0.0.0.0", int(sys.argv[1]))); s.listen(); s.settimeout(1)
    s.accept(); print("somebody came")
except OSError: pass
"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    knocked = threading.Event()

    def knock() -> None:
        while not knocked.wait(0.05):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                pass

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        assert (await attacker.python(code, port)).stdout == ""
    finally:
        knocked.set()
        thread.join()
