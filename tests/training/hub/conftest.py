"""A hub: a real server, which answers as one does.

Its addresses and headers are those that huggingface_hub asks for: repository, tree, files.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rolecraft.training.hub import HubSettings

pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "team/tiny"
FILES = {"config.json": b'{"a": 1}', "weights.safetensors": b"w" * 300_000, "tf_model.h5": b"no"}


@dataclass
class Hub:
    """One repository; `answers` has what to do otherwise, by the begin of `METHOD path`."""

    url: str
    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    name: str = NAME
    commit: str = COMMIT
    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))

    def settings(self, cache: Path, **options) -> HubSettings:
        patience = {"connect_seconds": 20.0, "read_seconds": 20.0, "retries": 1}
        return HubSettings(endpoint=self.url, cache=cache, **(patience | options))

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        _answer(handler, self)

    def send(self, handler: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
        _send(handler, status, b"{}", {key.replace("_", "-"): headers[key] for key in headers})

    def send_file(
        self, handler: BaseHTTPRequestHandler, name: str, *, cut_at: int | None = None
    ) -> None:
        _send_file(handler, self.files[name], cut_at=cut_at)

    def stall(self, handler: BaseHTTPRequestHandler) -> None:
        """Accept, and say nothing."""
        self.closing.wait(120)


def _answer(handler: BaseHTTPRequestHandler, hub: Hub) -> None:
    asked = f"{handler.command} {handler.path}"
    hub.asked.append(asked)
    for begin, answer in hub.answers.items():
        if asked.startswith(begin):
            answer(handler)
            return
    path = handler.path.partition("?")[0]
    for prefix in (f"/api/models/{NAME}", f"/api/datasets/{NAME}"):
        if path in (prefix, f"{prefix}/revision/main"):
            siblings = [{"rfilename": name} for name in hub.files]
            about = {"id": NAME, "sha": hub.commit, "siblings": siblings}
            _send(handler, 200, json.dumps(about).encode())
            return
        if path == f"{prefix}/tree/{hub.commit}":
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": _oid(data)}
                for name, data in hub.files.items()
            ]
            _send(handler, 200, json.dumps(tree).encode())
            return
    name = path.rpartition("/")[2]
    if f"{NAME}/resolve/{hub.commit}/" in path and name in hub.files:
        _send_file(handler, hub.files[name])
        return
    _send(handler, 404, b"{}", {"X-Error-Code": "RepoNotFound"})


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def _send(handler, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    for key, value in (headers or {}).items():
        handler.send_header(key, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def _send_file(handler, data: bytes, *, cut_at: int | None = None) -> None:
    """A file, or what is left of it from the byte that is asked for; or only a part."""
    wanted = handler.headers.get("Range")
    start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
    handler.send_response(206 if wanted else 200)
    handler.send_header("Content-Length", str(len(data) - start))
    if wanted:
        handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
    handler.send_header("ETag", f'"{_oid(data)}"')
    handler.send_header("X-Repo-Commit", COMMIT)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(data[start:cut_at])
        handler.wfile.flush()


@pytest.fixture
def hub() -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(self, found)

        do_HEAD = do_GET

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is what some of these tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        found = Hub(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        found.closing.set()
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch, tmp_path) -> None:
    """The environment says where a hub is and that there is none: settings are what counts."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "not here"))
    monkeypatch.chdir(tmp_path)
