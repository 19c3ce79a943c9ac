"""The door: only this page, on this machine, with the key, gets an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from rolecraft.failure_taxonomy import MODES
from rolecraft.viewer.labelling import Desk, OpenTrace
from rolecraft.viewer.labelling.guard import LARGEST
from rolecraft.viewer.labelling.serving import LabellingServer, PortTaken

Served = Callable[..., AbstractContextManager[LabellingServer]]


@pytest.fixture(scope="module")
def server(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabellingServer]:
    """One for all: nothing that these tests ask for is done."""
    with served(Desk([], tmp_path_factory.mktemp("labels"))) as running:
        yield running


def base(server: LabellingServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def test_it_listens_on_the_loopback_address_only(server: LabellingServer) -> None:
    assert server._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/api/project", "/static/main.js", "/export/labels.csv"])
def test_without_the_key_there_is_nothing(server: LabellingServer, path: str) -> None:
    answer = httpx.get(base(server) + path)
    assert answer.status_code == 403
    assert "rolecraft label" in answer.text


@pytest.mark.parametrize("token", ["", "wrong", "ö"])
def test_a_wrong_key_does_not_open(server: LabellingServer, token: str) -> None:
    answer = httpx.get(base(server), params={"token": token})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_key_becomes_a_cookie_that_no_script_and_no_other_site_gets(
    server: LabellingServer,
) -> None:
    answer = httpx.get(server.address)
    assert answer.status_code == 200
    assert server.token not in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "[::1]:1"])
def test_a_name_that_points_at_this_machine_is_not_answered(
    client: httpx.Client, server: LabellingServer, host: str
) -> None:
    """DNS rebinding: the browser believes that it talks to the attacker's own site."""
    named = host.format(port=server.port)
    answer = client.get("/api/project", headers={"Host": named})
    assert answer.status_code == 421
    let_in = client.get("/", params={"token": server.token}, headers={"Host": named})
    assert let_in.status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_site_gets_no_answer_even_with_the_cookie(
    client: httpx.Client, origin: str, method: str
) -> None:
    headers = {"Origin": origin}
    body = {"json": {"name": "Eve"}} if method == "POST" else {}
    path = "/api/join" if method == "POST" else "/api/project"
    answer = client.request(method, path, headers=headers, **body)
    assert answer.status_code == 403
    assert client.get("/api/project").json()["annotators"] == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_embeds_is_not_answered(client: httpx.Client, site: str) -> None:
    answer = client.get("/static/main.js", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403


def test_writing_needs_the_origin_of_the_page(client: httpx.Client) -> None:
    del client.headers["Origin"]
    assert client.post("/api/join", json={"name": "Eve"}).status_code == 403


def test_a_form_of_another_kind_is_not_taken_for_json(client: httpx.Client) -> None:
    answer = client.post(
        "/api/join", content='{"name": "Eve"}', headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 415


def test_a_request_has_a_bound(client: httpx.Client) -> None:
    assert client.post("/api/join", json={"name": "x" * LARGEST}).status_code == 413
    chunked = client.post(
        "/api/join", content=iter([b"{}"]), headers={"Content-Type": "application/json"}
    )
    assert chunked.status_code == 413


@pytest.mark.parametrize(
    "path", ["/", "/api/project", "/static/style.css", "/nothing", "/api/nothing"]
)
def test_every_answer_forbids_scripts_and_loads_from_elsewhere(
    client: httpx.Client, path: str
) -> None:
    answer = client.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e%2f%2e%2e", "/export/x"]
)
def test_no_other_file_is_served(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "wrong"),
    [
        ("/api/join", [], "JSON object"),
        ("/api/join", {}, "name"),
        ("/api/join", {"name": 3}, "`name` is a text"),
        ("/api/join", {"name": "Ann", "more": 1}, "more"),
        ("/api/edit", {"annotator": "Ann", "trace": "t", "field": "note", "value": 1}, "base"),
        ("/api/finish", {"annotator": "Nobody", "trace": "t"}, "no trace 't'"),
    ],
)
def test_what_is_not_understood_is_said(
    client: httpx.Client, path: str, body: object, wrong: str
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert wrong in answer.json()["error"]


def test_broken_json_is_an_answer_and_no_crash(client: httpx.Client) -> None:
    answer = client.post(
        "/api/join", content=b"{\xff", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400


def test_a_port_that_is_taken_is_said(server: LabellingServer) -> None:
    with pytest.raises(PortTaken, match=str(server.port)):
        LabellingServer(None, port=server.port)  # type: ignore[arg-type]


def test_a_port_is_free_again_when_the_server_ends(served: Served, tmp_path: Path) -> None:
    with served(Desk([], tmp_path)) as first:
        pass
    with served(Desk([], tmp_path), port=first.port) as second:
        assert httpx.get(second.address).status_code == 200


def test_a_file_of_an_annotator_with_any_name_is_exported(
    served: Served, trace: OpenTrace, tmp_path: Path
) -> None:
    desk = Desk([trace], tmp_path / "labels")
    desk.join("Zoë Ŵ")
    for mode in MODES:
        desk.edit("Zoë Ŵ", trace.key, f"mode/{mode}", {"verdict": "absent"}, base=0)
    desk.finish("Zoë Ŵ", trace.key)
    with served(desk) as server, httpx.Client(base_url=base(server)) as client:
        client.get("/", params={"token": server.token})
        about = {"annotator": "Zoë Ŵ"}
        names = [file["name"] for file in client.get("/api/exports", params=about).json()]
        assert len(names) == 3
        for name in names:
            answer = client.get(f"/export/{name}", params=about)
            assert answer.status_code == 200
            assert "Zoë Ŵ" in answer.text


async def test_at_port_80_a_browser_names_no_port_and_is_let_in() -> None:
    """The port cannot be had here, so the door is asked without a socket."""
    from starlette.applications import Starlette

    from rolecraft.viewer.labelling.guard import Guard

    async def status(port: int, host: str) -> int:
        transport = httpx.ASGITransport(Guard(Starlette(), token="key", port=port))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asking:
            answer = await asking.get("/", params={"token": "key"}, headers={"host": host})
        return answer.status_code

    assert await status(80, "127.0.0.1") == 200
    assert await status(80, "localhost") == 200
    assert await status(80, "127.0.0.1:80") == 200
    assert await status(80, "evil.example") == 421
    assert await status(8080, "127.0.0.1") == 421
