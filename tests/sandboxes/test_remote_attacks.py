"""What a stranger, a careless client or a hostile one sends to a sandbox server."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import socket
import tarfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import (
    AllowList,
    Execution,
    LocalProcess,
    Remote,
    SandboxFileError,
    SandboxLimits,
    SandboxRefused,
    SandboxSpec,
)
from rolecraft.sandboxes._remote_client import Into
from rolecraft.sandboxes.server import SandboxServer, ServerSettings
from rolecraft.sandboxes.server.work import Workshop


@pytest.fixture
def server(sandbox_servers: Callable[[str], Any]) -> Any:
    return sandbox_servers("local")


@pytest.fixture
async def client(server: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with raw(server.url, server.token) as client:
        yield client


@pytest.fixture
async def sandbox(client: httpx.AsyncClient) -> AsyncIterator[str]:
    """The path of a sandbox."""
    made = (await client.post("/v1/sandboxes", json={})).json()
    yield f"/v1/sandboxes/{made['id']}"
    await client.delete(f"/v1/sandboxes/{made['id']}")


EVERYTHING = [
    ("GET", "/v1/about"),
    ("POST", "/v1/lease"),
    ("DELETE", "/v1/lease"),
    ("POST", "/v1/run"),
    ("POST", "/v1/sandboxes"),
    ("PUT", f"/v1/bases/{'0' * 64}"),
    ("GET", "/v1/sandboxes/x/file?path=a&max_bytes=1"),
    ("DELETE", "/v1/sandboxes/x"),
    ("DELETE", "/v1/requests/x"),
    ("GET", "/no/such/path"),
    ("GET", "//health"),
    ("GET", "/health/"),
    ("GET", "/health/../v1/about"),
    ("GET", "/v1/about?path=/health"),
]


@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer", "Bearer wrong", "Basic YTpi", "a-token-of-the-tests", "Bearer a-token-of"],
)
async def test_without_the_token_no_path_does_anything(
    server: Any, authorization: str | None
) -> None:
    headers = {"rolecraft-lease": "stranger"}
    if authorization is not None:
        headers["authorization"] = authorization
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as stranger:
        for method, path in EVERYTHING:
            answer = await stranger.request(method, path, content=b"{}")
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"]["code"] == "token"
        for path in ("/health", "/ready"):
            assert (await stranger.get(path)).status_code == 200


async def test_the_body_of_a_stranger_is_not_read(server: Any) -> None:
    """A gigabyte without a token gets its refusal after the headers."""
    head = (
        b"PUT /v1/bases/" + b"0" * 64 + b" HTTP/1.1\r\nhost: x\r\n"
        b"content-length: 1000000000\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head)
    async with asyncio.timeout(60):
        assert b" 401 " in await reader.readline()
    writer.close()


async def test_a_client_with_a_wrong_token_is_told_what_to_give(server: Any) -> None:
    for token in (None, "wrong"):
        remote = Remote(server.url, token=token)
        with pytest.raises(SandboxError, match=r"token.*Remote\('http.*token=\.\.\.\)"):
            await remote.create()
        await remote.aclose()


async def test_a_server_without_a_token_answers_this_machine_only(
    sandbox_server: Callable[..., Any],
) -> None:
    """A page in a browser may have given its own name this machine's address."""
    server = sandbox_server("--no-token")
    async with Remote(server.url) as remote:
        assert (await remote.run(["echo", "here"])).stdout == "here\n"
    async with httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.get("/v1/about", headers={"host": "evil.example"})
        assert answer.status_code == 403


def test_a_server_does_not_start_open_to_others() -> None:
    with pytest.raises(UsageError, match="give it `tokens`"):
        ServerSettings()
    with pytest.raises(UsageError, match="exclude each other"):
        ServerSettings(tokens=["a"], no_token=True)
    with pytest.raises(UsageError, match="other machines"):
        SandboxServer(LocalProcess(), ServerSettings(no_token=True), host="0.0.0.0", port=0)


async def test_a_client_finds_no_sandbox_but_its_own(
    server: Any, client: httpx.AsyncClient, sandbox: str
) -> None:
    run = {"command": ["true"]}
    assert (await client.post(f"{sandbox}/run", json=run)).status_code == 200
    async with raw(server.url, server.token) as other:
        answer = await other.post(f"{sandbox}/run", json=run)
        assert answer.status_code == 410
        assert (await other.delete(sandbox)).status_code == 200  # nothing, as for one that is gone
    assert (await client.post(f"{sandbox}/run", json=run)).status_code == 200
    for name in ("x", "..%2f..%2fetc", "%00", "a" * 5000):
        answer = await client.post(f"/v1/sandboxes/{name}/run", json=run)
        assert answer.status_code in (404, 405, 410), name


async def test_paths_that_lead_out_of_the_sandbox_are_refused(
    client: httpx.AsyncClient, sandbox: str
) -> None:
    for path in ("../x", "/etc/passwd", "a/../../x", "/proc/self/environ", "\0", "a\0b"):
        named = {"path": path, "max_bytes": 10_000}
        for answer in (
            await client.get(f"{sandbox}/file", params=named),
            await client.put(f"{sandbox}/file", params=named, content=b"x"),
            await client.get(f"{sandbox}/archive", params=named),
        ):
            assert answer.status_code == 422, path
            assert answer.json()["error"]["type"] == "SandboxFileError"
    run = {"command": ["true"], "files": {"../x": ""}}
    assert (await client.post(f"{sandbox}/run", json=run)).status_code == 400


async def test_a_client_names_no_folder_of_the_server_but_those_that_were_allowed(
    sandbox_server: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "data" / "below").mkdir(parents=True)
    (tmp_path / "data" / "link").symlink_to("/etc")
    server = sandbox_server("--allow-readable", tmp_path / "data")
    async with Remote(server.url, token=server.token) as remote:
        for spec, named in (
            (SandboxSpec(readable=("/etc",)), "readable"),
            (SandboxSpec(readable=(tmp_path,)), "readable"),
            (SandboxSpec(readable=(f"{tmp_path}/data/..",)), "readable"),
            (SandboxSpec(readable=(f"{tmp_path}/data/link",)), "readable"),
            (SandboxSpec(readable=(f"{tmp_path}/data", f"{tmp_path}/data2")), "readable"),
            (SandboxSpec(root="/"), "root"),
        ):
            with pytest.raises(SandboxRefused, match=f"--allow-{named}") as refused:
                await remote.create(spec)
            assert refused.value.missing == (named,)
        await remote.create(SandboxSpec(readable=(tmp_path / "data", tmp_path / "data" / "below")))
    async with raw(server.url, server.token) as client:
        answer = await client.post("/v1/sandboxes", json={"base": "../../etc"})
        assert answer.status_code == 422
        answer = await client.post("/v1/sandboxes", json={"base": "0" * 64})
        assert answer.json()["error"]["code"] == "unknown_base"
        answer = await client.put("/v1/bases/..%2f..%2fetc", content=b"")
        assert answer.status_code in (400, 404)


def archive(*entries: tuple[str, bytes, str]) -> bytes:
    """A tar archive of names, their types, and content or a link's goal."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, content in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o777
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = content
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


async def test_an_archive_writes_nothing_outside_of_its_folder(
    client: httpx.AsyncClient, sandbox: str, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "secret").write_text("secret")
    bad = archive(
        (".", tarfile.DIRTYPE, ""),
        ("good", tarfile.REGTYPE, "good"),
        ("../up", tarfile.REGTYPE, "bad"),
        (f"{victim}/absolute", tarfile.REGTYPE, "bad"),
        ("link", tarfile.SYMTYPE, str(victim)),
        ("link/through", tarfile.REGTYPE, "bad"),
        ("hard", tarfile.LNKTYPE, str(victim / "secret")),
        ("pipe", tarfile.FIFOTYPE, ""),
    )
    digest = hashlib.sha256(bad).hexdigest()
    assert (await client.put(f"/v1/bases/{digest}", content=bad)).status_code == 200
    made = await client.post("/v1/sandboxes", json={"base": digest})
    ways = [f"/v1/sandboxes/{made.json()['id']}", sandbox]
    await client.put(f"{sandbox}/archive", params={"path": "."}, content=bad)
    for way in ways:
        found = await client.get(f"{way}/file", params={"path": "good", "max_bytes": 9})
        assert found.content == b"good"
        for name in ("link/secret", "hard", "../up"):
            found = await client.get(f"{way}/file", params={"path": name, "max_bytes": 9})
            assert found.status_code in (400, 422), name
    assert [path.name for path in victim.iterdir()] == ["secret"]


async def test_an_archive_that_is_not_what_it_says_is_refused(client: httpx.AsyncClient) -> None:
    good = archive((".", tarfile.DIRTYPE, ""))
    answer = await client.put(f"/v1/bases/{'0' * 64}", content=good)
    assert answer.status_code == 400
    assert "damaged" in answer.json()["error"]["message"]
    for content in (b"no archive", b"", good[:100]):
        digest = hashlib.sha256(content).hexdigest()
        assert (await client.put(f"/v1/bases/{digest}", content=content)).status_code >= 400


async def test_what_is_too_large_is_refused(
    sandbox_server: Callable[..., Any], tmp_path: Path
) -> None:
    server = sandbox_server("--max-body", 10_000, "--max-upload", 30_000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "large").write_bytes(b"x" * 40_000)

    async def in_pieces(size: int) -> AsyncIterator[bytes]:
        for _ in range(size // 1000):
            yield b"x" * 1000

    async with raw(server.url, server.token) as client:
        made = (await client.post("/v1/sandboxes", json={})).json()
        way = f"/v1/sandboxes/{made['id']}"
        for path, content in (
            (f"{way}/file?path=a", b"x" * 10_001),
            (f"{way}/file?path=a", in_pieces(12_000)),
            (f"{way}/archive?path=a", b"x" * 30_001),
            (f"{way}/archive?path=a", in_pieces(32_000)),
            (f"/v1/bases/{'0' * 64}", in_pieces(32_000)),
        ):
            answer = await client.put(path, content=content)
            assert answer.status_code == 413, path
            assert "--max-upload" in answer.json()["error"]["message"]
        answer = await client.post(f"{way}/run", json={"command": ["true", "x" * 10_000]})
        assert answer.status_code == 413
        assert (await client.post(f"{way}/run", json={"command": ["true"]})).status_code == 200
    async with Remote(server.url, token=server.token) as remote:
        sandbox = await remote.create()
        with pytest.raises(SandboxFileError, match="10000"):
            await sandbox.write("a", b"x" * 10_001)
        with pytest.raises(UsageError, match="--max-upload"):
            await sandbox.upload(tmp_path / "folder", "a")
        with pytest.raises(UsageError, match="--max-upload"):
            await remote.create(SandboxSpec(base=tmp_path / "folder"))
        await sandbox.run(["sh", "-c", "head -c 20000 /dev/zero > b"])
        with pytest.raises(SandboxFileError):
            await sandbox.read("b")


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/sandboxes", b"{", "`body`"),
        ("/v1/sandboxes", b"[]", "`body`"),
        ("/v1/sandboxes", b'{"bse": null}', "`bse`"),
        ("/v1/sandboxes", b'{"limits": {"seconds": 1, "secs": 2}}', "`limits.secs`"),
        ("/v1/sandboxes", b'{"limits": {"seconds": -1}}', "more than 0"),
        ("/v1/sandboxes", b'{"network": {"hosts": []}}', "AllowList"),
        ("/v1/sandboxes", b'{"requires": ["everything"]}', "`requires.0`"),
        ("/v1/sandboxes", b'{"files": {"a": "no base64!"}}', "base64"),
        ("/v1/sandboxes", b'{"files": {"../a": ""}}', "relative"),
        ("/v1/sandboxes", b'{"ports": [0]}', "`ports.0`"),
        ("/v1/run", b'{"command": []}', "list of words"),
        ("/v1/run", b'{"command": "ls"}', "`command`"),
        ("/v1/run", b'{"command": ["a\\u0000b"]}', "NUL"),
        ("/v1/run", b"{}", "`command`"),
        ("/v1/run", b'{"command": ["ls"], "stdin": 3}', "`stdin`"),
    ],
)
async def test_a_wrong_request_is_told_which_field(
    client: httpx.AsyncClient, path: str, body: bytes, says: str
) -> None:
    answer = await client.post(path, content=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["type"] == "UsageError"
    assert says in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"command": ["\ud800"]},
        {"command": ["true"], "files": {"\ud800": ""}},
        {"command": ["true"], "cwd": "\ud800"},
        {"command": ["true"], "cwd": "\0"},
        {"command": ["true"], "env": {"A=B": "x"}},
        {"command": ["true"], "env": {"": "x"}},
        {"command": ["true"], "env": {"A": "\0"}},
        {"command": ["true"], "env": {"A": "\ud800"}},
        {"command": ["true"], "limits": {"memory_bytes": 10**4000}},
        {"command": ["true"], "limits": {"seconds": 10**400}},
    ],
)
async def test_words_and_numbers_that_no_program_can_have_are_the_clients_fault(
    client: httpx.AsyncClient, sandbox: str, body: dict[str, Any]
) -> None:
    wrong = {name: body[name] for name in body if name != "command"} or {"env": {"A": "\ud800"}}
    asked = [(f"{sandbox}/run", body)]
    asked += [("/v1/run", body)] if body.keys() <= {"command", "files", "limits"} else []
    asked += [] if "cwd" in wrong else [("/v1/sandboxes", wrong)]
    asked += [] if wrong.keys() & {"files", "limits"} else [(f"{sandbox}/shells", wrong)]
    for path, content in asked:
        answer = await client.post(path, content=json.dumps(content))
        assert answer.status_code in (400, 422), (path, answer.text)


async def test_headers_that_are_none_are_refused(client: httpx.AsyncClient) -> None:
    for headers in (
        {"rolecraft-lease": "a b"},
        {"rolecraft-lease": "x" * 81},
        {"rolecraft-request": "../x"},
        {"rolecraft-request": ""},
    ):
        answer = await client.post("/v1/run", json={"command": ["true"]}, headers=headers)
        assert answer.status_code == 400, headers
    del client.headers["rolecraft-lease"]
    assert (await client.post("/v1/run", json={"command": ["true"]})).status_code == 400


@given(
    body=st.binary(max_size=200), path=st.sampled_from(["/v1/sandboxes", "/v1/run", "/v1/lease"])
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_garbage_brings_the_server_down(server: Any, body: bytes, path: str) -> None:
    headers = {"authorization": f"Bearer {server.token}", "rolecraft-lease": "garbage"}
    with httpx.Client(base_url=server.url, headers=headers, verify=False) as client:
        assert client.post(path, content=body).status_code < 500
        assert client.get("/health").status_code == 200


async def test_bytes_that_are_no_http_do_no_harm(server: Any) -> None:
    for data in (b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"POST /v1/run HTTP/1.1\r\nx" * 100):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(data)
    async with Remote(server.url, token=server.token) as remote:
        assert (await remote.run(["true"])).ok


class Failing(LocalProcess):
    """A provider that fails in a way that nobody has thought of."""

    async def run(self, *args: Any, **named: Any) -> Execution:
        raise ZeroDivisionError("the password is xyzzy, see /etc/secret")


async def test_an_error_that_nobody_has_thought_of_crosses_without_its_text() -> None:
    server = SandboxServer(Failing(), ServerSettings(tokens=["t"]), port=0)
    serving = asyncio.create_task(server.serve())
    try:
        async with raw(server.url, "t") as client:
            answer = await client.post("/v1/run", json={"command": ["true"]})
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "SandboxError"
        for word in ("xyzzy", "secret", "Zero", "Traceback", ".py"):
            assert word not in answer.text
        async with Remote(server.url, token="t") as remote:
            with pytest.raises(SandboxError, match="its log says how"):
                await remote.run(["true"])
            assert (await (await remote.create()).run(["true"])).ok
    finally:
        server.stop()
        await serving


async def test_what_a_client_can_have_remembered_is_bounded() -> None:
    """Old answers are forgotten, but not that they were given: nothing is run twice."""
    asked = ServerSettings(tokens=["t"], remembered_requests=10, remembered_bytes=5_000)
    server = SandboxServer(LocalProcess(), asked, port=0)
    serving = asyncio.create_task(server.serve())
    try:
        async with raw(server.url, "t") as client:
            made = (await client.post("/v1/sandboxes", json={})).json()
            path = f"/v1/sandboxes/{made['id']}/run"
            body = {"command": ["sh", "-c", "echo x >> log; head -c 2000 /dev/zero"]}
            for number in range(5):
                key = {"rolecraft-request": f"r{number}"}
                assert (await client.post(path, json=body, headers=key)).status_code == 200
            again = await client.post(path, json=body, headers={"rolecraft-request": "r0"})
            assert again.status_code == 409
            assert again.json()["error"]["code"] == "forgotten"
            last = await client.post(path, json=body, headers={"rolecraft-request": "r4"})
            assert last.status_code == 200
            log = await client.get(
                f"/v1/sandboxes/{made['id']}/file", params={"path": "log", "max_bytes": 100}
            )
            assert log.content == b"x\n" * 5
            leases = server.app.state.desk.leases._leases
            jobs = next(iter(leases.values())).jobs
            for number in range(50):
                await client.post(
                    "/v1/run",
                    json={"command": ["true"]},
                    headers={"rolecraft-request": f"s{number}"},
                )
            assert len(jobs._jobs) <= 11
            assert jobs._bytes <= 5_000
    finally:
        server.stop()
        await serving


async def test_a_client_gets_no_more_than_the_operator_allows(
    sandbox_server: Callable[..., Any],
) -> None:
    """And hears which limit it was, and of which option, in place of a smaller sandbox."""
    server = sandbox_server("--max-memory", 2**30, "--max-seconds", 20, "--max-output", 2**17)
    asked: list[dict[str, Any]] = [
        {"memory_bytes": 10**15},
        {"disk_bytes": 10**14},
        {"seconds": 10**9},
        {"processes": 10**6},
        {"cpu_seconds": 10**6},
        {"file_bytes": 10**13},
        {"output_bytes": 10**12},
    ]
    async with Remote(server.url, token=server.token) as remote:
        sandbox = await remote.create(SandboxSpec(limits=SandboxLimits(memory_bytes=2**30)))
        shell = await sandbox.shell()
        for each in asked:
            limits, (name,) = SandboxLimits(**each), each
            for work in (
                remote.create(SandboxSpec(limits=limits)),
                remote.run(["true"], limits=limits),
                sandbox.run(["true"], limits=limits),
            ):
                with pytest.raises(SandboxRefused, match=r"at most \d+ \(`--max-") as refused:
                    await work
                assert refused.value.missing == (name,)
        with pytest.raises(SandboxRefused, match="--max-seconds"):
            await shell.run("true", seconds=21)
        with pytest.raises(SandboxRefused, match="--max-output"):
            await shell.run("true", output_bytes=2**18)
        assert (await shell.run("echo on", seconds=20)).stdout == "on\n"
        copy = await sandbox.fork()
        assert (await copy.run(["true"])).ok


@pytest.mark.parametrize("network", ["full", AllowList(("example.org",))])
async def test_a_client_has_no_network_that_the_operator_did_not_allow(
    sandbox_server: Callable[..., Any], network: Any
) -> None:
    server = sandbox_server()
    async with Remote(server.url, token=server.token) as remote:
        with pytest.raises(SandboxRefused, match="--allow-network") as refused:
            await remote.create(SandboxSpec(network=network))
        assert refused.value.missing == ("network",)


async def test_an_answer_is_no_larger_than_the_server_sends(
    sandbox_server: Callable[..., Any],
) -> None:
    """Counted as it is sent: a byte that is no text takes six in JSON."""
    server = sandbox_server("--max-answer", 300_000)
    limits = SandboxLimits(output_bytes=250_000)
    async with Remote(server.url, token=server.token) as remote, await remote.create() as sandbox:
        text = await sandbox.run(["sh", "-c", "yes | head -c 120000"], limits=limits)
        assert len(text.stdout) == 120_000
        shell = await sandbox.shell()
        zeros = "head -c 60000 /dev/zero"
        for work in (
            sandbox.run(["sh", "-c", zeros], limits=limits),
            remote.run(["sh", "-c", zeros], limits=limits),
            shell.run(zeros, output_bytes=250_000),
        ):
            with pytest.raises(SandboxRefused, match="--max-answer"):
                await work
        assert (await shell.run("echo on")).stdout == "on\n"


@pytest.mark.parametrize("most", ["-1", "-2", "-9", "0", "1e3", str(2**63), "9" * 5000, ""])
async def test_a_size_that_is_none_is_the_clients_fault(
    client: httpx.AsyncClient, sandbox: str, most: str
) -> None:
    await client.put(f"{sandbox}/file", params={"path": "a"}, content=b"x" * 100)
    answer = await client.get(f"{sandbox}/file", params={"path": "a", "max_bytes": most})
    assert answer.status_code == 422
    assert "`max_bytes`" in answer.json()["error"]["message"]


def linked(size: int, times: int) -> bytes:
    """An archive of one file and of hard links to it, each of which becomes a copy."""
    links = [(f"link{number}", tarfile.LNKTYPE, "file") for number in range(times)]
    return archive((".", tarfile.DIRTYPE, ""), ("file", tarfile.REGTYPE, "x" * size), *links)


async def test_a_small_archive_of_much_is_refused(sandbox_server: Callable[..., Any]) -> None:
    server = sandbox_server("--max-upload", 1_000_000)
    bomb, small = linked(100_000, 50), linked(100_000, 5)
    async with raw(server.url, server.token) as client:
        made = (await client.post("/v1/sandboxes", json={})).json()
        for content, status in ((bomb, 413), (small, 200)):
            digest = hashlib.sha256(content).hexdigest()
            for path in (
                f"/v1/bases/{digest}",
                f"/v1/sandboxes/{made['id']}/archive?path={status}",
            ):
                answer = await client.put(path, content=content)
                assert answer.status_code == status, answer.text
                if status == 413:
                    assert "--max-upload" in answer.json()["error"]["message"]
                    assert "/tmp" not in answer.text


async def test_folders_that_are_kept_are_counted_as_they_lie_there() -> None:
    """Of an archive of 100 kB that becomes 1 MB, three do not fit into 2.5 MB."""
    asked = ServerSettings(tokens=["t"], max_bases=2_500_000)
    async with served(asked) as server:
        bases = server.app.state.desk.shop.bases
        async with raw(server.url, "t") as client:
            for number in range(3):
                content = linked(100_000 + number, 9)
                digest = hashlib.sha256(content).hexdigest()
                assert (await client.put(f"/v1/bases/{digest}", content=content)).is_success
                assert digest in bases._sizes
            assert len(bases._sizes) == 2
            assert all(size > 1_000_000 for size in bases._sizes.values())


async def test_requests_that_are_taken_back_before_they_come_are_bounded() -> None:
    asked = ServerSettings(tokens=["t"], remembered_requests=10)
    async with served(asked) as server, raw(server.url, "t") as client:
        for number in range(50):
            await client.delete(f"/v1/requests/r{number}")
        leases = server.app.state.desk.leases._leases
        assert len(next(iter(leases.values())).jobs._jobs) == 10
        late = await client.post(
            "/v1/run", json={"command": ["true"]}, headers={"rolecraft-request": "r49"}
        )
        assert late.json()["error"]["code"] == "forgotten"


async def test_what_all_clients_can_have_remembered_is_bounded_too() -> None:
    """Also the last answer of each; whoever waits for one that is too large to keep gets it."""
    asked = ServerSettings(tokens=["t"], remembered_total=10_000)
    async with served(asked) as server:
        body = {"command": ["sh", "-c", "yes | head -c 4000"]}
        for _ in range(5):
            client = httpx.AsyncClient(base_url=server.url, headers=headers("t"))
            async with client:
                key = {"rolecraft-request": "a"}
                answer = await client.post("/v1/run", json=body, headers=key)
                assert len(answer.json()["execution"]["stdout"]) == 4000
        remembered = server.app.state.desk.leases._remembered
        assert 0 < remembered.bytes <= 10_000
        kept = [
            job.size
            for lease in server.app.state.desk.leases._leases.values()
            for job in lease.jobs._jobs.values()
            if not job.forgotten
        ]
        assert sum(kept) == remembered.bytes
        async with raw(server.url, "t") as last:
            body["command"][2] = "yes | head -c 20000"
            answer = await last.post("/v1/run", json=body, headers=key)
            assert len(answer.json()["execution"]["stdout"]) == 20_000
            again = await last.post("/v1/run", json=body, headers=key)
            assert again.json()["error"]["code"] == "forgotten"
        assert remembered.bytes <= 10_000


async def test_a_download_is_no_larger_than_was_asked_for_nor_than_the_server_sends(
    sandbox_server: Callable[..., Any], tmp_path: Path
) -> None:
    """Files that are nothing but a hole are small in the sandbox, and are counted in full."""
    server = sandbox_server("--max-upload", 3_000_000)
    async with Remote(server.url, token=server.token) as remote, await remote.create() as sandbox:
        await sandbox.run(["sh", "-c", "mkdir d; for i in 1 2; do truncate -s 1000000 d/$i; done"])
        for most in (1_999_999, 1):
            with pytest.raises(SandboxFileError, match=f"more than {most} bytes"):
                await sandbox.download("d", tmp_path / "no", max_bytes=most)
        await sandbox.download("d", tmp_path / "yes", max_bytes=2_000_000)
        assert (tmp_path / "yes" / "2").stat().st_size == 1_000_000
        await sandbox.run(["sh", "-c", "truncate -s 2000000 d/3"])
        with pytest.raises(SandboxFileError, match="more than 3000000 bytes"):
            await sandbox.download("d", tmp_path / "no")
        for work in (
            sandbox.read("d/1", max_bytes=-2),
            sandbox.download("d", tmp_path / "no", max_bytes=0),
        ):
            with pytest.raises(UsageError, match="above 0"):
                await work
    async with raw(server.url, server.token) as client:
        made = (await client.post("/v1/sandboxes", json={})).json()
        for size in ("-1", "0", str(2**63)):
            answer = await client.get(
                f"/v1/sandboxes/{made['id']}/archive", params={"path": ".", "max_bytes": size}
            )
            assert answer.status_code == 422


def test_a_server_that_sends_without_end_is_not_listened_to() -> None:
    """A client keeps of an archive no more than one of so many bytes can have."""
    kept = io.BytesIO()
    into = Into(kept, 1000)
    into.write(b"x" * 600)
    into.again()
    into.write(b"x" * 600)
    with pytest.raises(SandboxError, match="more than 1000 bytes"):
        into.write(b"x" * 600)
    assert len(kept.getvalue()) == 600


async def test_the_same_id_with_another_folder_is_another_request(
    client: httpx.AsyncClient, sandbox: str
) -> None:
    one, other = (archive((".", tarfile.DIRTYPE, ""), ("a", tarfile.REGTYPE, c)) for c in "12")
    key = {"rolecraft-request": uuid.uuid4().hex}
    for content, status in ((one, 200), (one, 200), (other, 409)):
        answer = await client.put(f"{sandbox}/archive?path=in", content=content, headers=key)
        assert answer.status_code == status


async def test_a_download_keeps_its_place_until_it_is_taken() -> None:
    asked = ServerSettings(tokens=["t"], max_commands=1, read_seconds=1)
    async with served(asked) as server, raw(server.url, "t") as client:
        shop = server.app.state.desk.shop
        made = (await client.post("/v1/sandboxes", json={})).json()
        way = f"/v1/sandboxes/{made['id']}"
        await client.put(f"{way}/file", params={"path": "a"}, content=bytes(40_000_000))
        async with client.stream("GET", f"{way}/archive", params={"path": "a"}) as answer:
            assert answer.status_code == 200
            assert shop.commands.taken == 1
            full = await client.post(f"{way}/run", json={"command": ["true"]})
            assert full.status_code == 429
            await given_back(shop)  # of a client that takes nothing
        assert (await client.post(f"{way}/run", json={"command": ["true"]})).is_success
        whole = await client.get(f"{way}/archive", params={"path": "a"})
        assert len(whole.content) > 40_000_000
        await given_back(shop)
        assert list((shop.bases.folder / "new").iterdir()) == []


async def given_back(shop: Workshop) -> None:
    async with asyncio.timeout(60):
        while shop.commands.taken:  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.05)


@asynccontextmanager
async def served(asked: ServerSettings) -> AsyncIterator[SandboxServer]:
    server = SandboxServer(LocalProcess(), asked, port=0)
    serving = asyncio.create_task(server.serve())
    try:
        yield server
    finally:
        server.stop()
        await serving


def headers(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "rolecraft-lease": uuid.uuid4().hex}


@asynccontextmanager
async def raw(url: str, token: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, headers=headers(token), timeout=30) as client:
        yield client
        await client.delete("/v1/lease")
