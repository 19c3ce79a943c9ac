"""Bubblewrap's ways out of a sandbox and into it, and roots in place of the host's system."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import AllowList, Bubblewrap, SandboxSpec
from rolecraft.sandboxes import _keeper_live as module
from rolecraft.sandboxes._keeper_proxy import Proxy, allows, out_there
from rolecraft.sandboxes.live import Ports

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(b"inside " + self.path.encode())
    def log_message(self, *words): pass
server = http.server.HTTPServer(("127.0.0.1", 8000), Handler)
print("ready", flush=True); server.serve_forever()
"""
FETCH = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try: print(urllib.request.urlopen(url, timeout=5).read().decode().strip())
    except urllib.error.HTTPError as error: print(error.code, error.read().decode().strip())
    except OSError as error: print(getattr(error, "reason", error))
"""


@pytest.fixture
def _bwrap(needs_program: Callable[..., None]) -> None:
    needs_program("bwrap", package="bubblewrap")


@contextlib.asynccontextmanager
async def a_server() -> AsyncIterator[tuple[int, list[str]]]:
    """An HTTP server on this machine that answers with what it was sent; its port, and requests."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            seen.append(head)
            body = head.splitlines()[0].encode()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        server.close()


@pytest.fixture
def _loopback_is_out_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every allowed name leads to this machine, which is else refused."""

    async def resolve(name: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", port)]

    def proxy(hosts: tuple[str, ...]) -> Proxy:
        return Proxy(hosts, resolve=resolve, reachable=lambda address: True)

    monkeypatch.setattr(module, "Proxy", proxy)


@pytest.mark.usefixtures("_bwrap", "_loopback_is_out_there")
async def test_with_an_allow_list_its_hosts_are_reached_and_no_others() -> None:
    async with a_server() as (port, seen):
        spec = SandboxSpec(network=AllowList((f"allowed.test:{port}", f".below.test:{port}")))
        async with await Bubblewrap().create(spec) as sandbox:
            urls = [f"http://allowed.test:{port}/path?q=1", f"http://a.below.test:{port}/"]
            urls += [f"http://other.test:{port}/", f"http://127.0.0.2:{port}/"]
            urls += [f"https://other.test:{port}/", f"https://allowed.test:{port}/"]
            done = await sandbox.run(["python3", "-c", FETCH, *urls])
            lines = done.stdout.splitlines()
            assert lines[0] == "GET /path?q=1 HTTP/1.1"
            assert lines[1] == "GET / HTTP/1.1"
            assert lines[2] == f"403 other.test:{port} is not on the sandbox's allow-list."
            assert lines[3] == "403 127.0.0.2 is an address; the allow-list has names."
            assert "403" in lines[4]
            assert "403" not in lines[5], "the tunnel was made, and then there was no TLS"
            assert f"Host: allowed.test:{port}" in seen[0]
            assert "proxy" not in seen[0].lower()


@pytest.mark.usefixtures("_bwrap")
async def test_an_allow_list_is_no_way_around_the_proxy_nor_back_into_this_machine() -> None:
    async with a_server() as (port, seen):
        spec = SandboxSpec(network=AllowList((f"localhost:{port}",)))
        async with await Bubblewrap().create(spec) as sandbox:
            look = f"""
import socket
for address in ("127.0.0.1", {port}), ("192.0.2.1", 80), ("1.1.1.1", 53):
    try: socket.create_connection(address, 2); print("reached", address)
    except OSError: pass
try: print(socket.getaddrinfo("example.org", 80))
except OSError: pass
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"GET http://localhost:{port}/ HTTP/1.1\\r\\n\\r\\n"); print(s.recv(9999).decode())
"""
            done = await sandbox.run(["python3", "-c", look])
            assert done.stdout.startswith("HTTP/1.1 403"), done
            assert "not out there" in done.stdout
        assert not seen


@pytest.mark.usefixtures("_bwrap", "_loopback_is_out_there")
@pytest.mark.parametrize(
    "request_of_a_sandbox",
    [
        *(b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff\0 \xff \xff\r\n\r\n"),
        *(b"GET http://[::1/ HTTP/1.1\r\n\r\n", b"GET ftp://allowed.test/ HTTP/1.1\r\n\r\n"),
        *(b"CONNECT :x HTTP/1.1\r\n\r\n", b"CONNECT allowed.test:99999 HTTP/1.1\r\n\r\n"),
        b"x" * 70_000,
    ],
)
async def test_a_request_that_is_none_is_refused(request_of_a_sandbox: bytes) -> None:
    spec = SandboxSpec(network=AllowList(("allowed.test",)), files={"r": request_of_a_sandbox})
    async with await Bubblewrap().create(spec) as sandbox:
        send = "import socket; s = socket.create_connection(('127.0.0.1', 3128))\n"
        send += "s.sendall(open('r', 'rb').read()); print(s.recv(99))"
        done = await sandbox.run(["python3", "-c", send])
        assert done.stdout.startswith("b'HTTP/1.1 4"), done


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        *(("a.test", True), ("A.TEST.", True), ("b.a.test", False), ("xa.test", False)),
        *(("x.b.test", True), ("b.test", False), ("evilb.test", False), ("", False)),
    ],
)
def test_names_are_compared_whole(name: str, allowed: bool) -> None:
    assert allows(("a.test", ".b.test"), name, 80) is allowed


@pytest.mark.parametrize(
    ("name", "port", "allowed"),
    [
        *(("a.test", 443, True), ("a.test", 22, False), ("a.test", 8080, False)),
        *(("b.test", 8080, True), ("b.test", 80, False), ("x.c.test", 99, True)),
    ],
)
def test_ports_other_than_80_and_443_have_to_be_named(name: str, port: int, allowed: bool) -> None:
    assert allows(("a.test", "b.test:8080", ".c.test:99"), name, port) is allowed


@pytest.mark.parametrize("host", ["a.test:", "a.test:x", "a.test:99999", ":80", "http://a.test"])
def test_a_host_with_a_port_that_is_none_is_a_usage_error(host: str) -> None:
    with pytest.raises(UsageError, match="name:port"):
        AllowList((host,))


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "0.0.0.0", "100.64.0.1"),
        *("::1", "fe80::1%eth0", "::ffff:127.0.0.1", "fd00::1", "224.0.0.1"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "::7f00:1", "2001::1"),
    ],
)
def test_addresses_of_this_machine_and_private_networks_are_not_out_there(address: str) -> None:
    assert not out_there(address)
    assert out_there("93.184.215.14")
    assert out_there("2606:2800:21f:cb07:6820:80da:af6b:8b2c")


@pytest.mark.usefixtures("_bwrap")
async def test_a_port_of_a_sandbox_is_reached_from_here_and_only_while_it_lives() -> None:
    spec = SandboxSpec(ports=(8000, 8001), files={"server.py": SERVER})
    async with await Bubblewrap().create(spec) as sandbox:
        shell = await sandbox.shell()
        await shell.run("python3 server.py > out & until grep -q ready out; do sleep 0.05; done")
        assert isinstance(sandbox, Ports)
        at = await sandbox.endpoint(8000)
        assert at == await sandbox.endpoint(8000)
        fetch = ["curl", "-s", "-m", "5", f"http://{at}/x"]
        done = await asyncio.to_thread(subprocess.run, fetch, capture_output=True, text=True)
        assert done.stdout == "inside /x"
        nobody = (await sandbox.endpoint(8001)).split(":")
        reader, writer = await asyncio.open_connection(nobody[0], int(nobody[1]))
        assert await reader.read() == b"", "nobody listens there"
        writer.close()
        with pytest.raises(UsageError, match="ports"):
            await sandbox.endpoint(80)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*at.split(":"))


@pytest.mark.usefixtures("_bwrap")
async def test_the_full_network_is_that_of_this_machine() -> None:
    async with a_server() as (port, _):
        async with await Bubblewrap().create(SandboxSpec(network="full")) as sandbox:
            done = await sandbox.run(["python3", "-c", FETCH, f"http://127.0.0.1:{port}/full"])
            assert done.stdout == "GET /full HTTP/1.1\n"
        async with await Bubblewrap().create() as sandbox:
            done = await sandbox.run(["python3", "-c", FETCH, f"http://127.0.0.1:{port}/none"])
            assert "refused" in done.stdout


def _names(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small root folder: `sh`, `cat` and `true` with their libraries, and a file."""
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True)
    (folder / "etc").mkdir()
    (folder / "etc" / "own").write_text("the root's own\n")
    for name in ("bash", "cat", "true", "ls"):
        program = shutil.which(name)
        assert program
        shutil.copy(program, folder / "bin")
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
        for word in listed.stdout.split():
            if word.startswith("/"):
                target = folder / word[1:]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, target)
    return folder


@pytest.mark.usefixtures("_bwrap")
async def test_a_root_folder_stands_in_for_the_hosts_system_and_is_not_changed(root: Path) -> None:
    before = _names(root)
    async with await Bubblewrap().create(SandboxSpec(root=root, files={"f": "x"})) as sandbox:
        look = "cat /etc/own f; echo > /etc/own; echo > /new; echo on > /tmp/t; cat /tmp/t; ls /usr"
        done = await sandbox.run(["bash", "-c", look])
        assert done.stdout == "the root's own\nxon\n"
        assert done.stderr.count("Read-only file system") == 2
        shell = await sandbox.shell()
        assert (await shell.run("echo $$ > n; cd /; cat /box/f")).stdout == "x"
    assert _names(root) == before


@pytest.mark.usefixtures("_bwrap")
async def test_a_root_folder_without_a_system_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SandboxError, match="true"):
        await Bubblewrap().create(SandboxSpec(root=tmp_path / "empty"))


@pytest.mark.usefixtures("_bwrap")
async def test_two_sandboxes_may_listen_on_the_same_port_and_do_not_meet() -> None:
    provider = Bubblewrap()
    listen = "import socket; s = socket.create_server(('127.0.0.1', 8000)); print(s.getsockname())"
    async with await provider.create() as one, await provider.create() as other:
        shell = await one.shell()
        await one.write("server.py", SERVER)
        await shell.run("python3 server.py > out & until grep -q ready out; do sleep 0.05; done")
        assert (await other.run(["python3", "-c", listen])).stdout == "('127.0.0.1', 8000)\n"
        assert (
            "inside /" in (await one.run(["python3", "-c", FETCH, "http://127.0.0.1:8000"])).stdout
        )
        with socket.socket() as here, pytest.raises(ConnectionRefusedError):
            here.connect(("127.0.0.1", 8000))
