"""How the tests run the command: in this process, or as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app

TEAM = '''
"""Two roles with scripted models."""

from rolecraft import Action, FunctionModel, Limits, Message, Role, ScriptedModel, Team
from rolecraft.messages import NOBODY


class Draft(Action):
    async def run(self, history):
        print("user code prints")
        return await self.ask(history[-1].content)


class Review(Action):
    async def run(self, history):
        return f"reviewed: {history[-1].content}"


class Writer(Role):
    model = ScriptedModel(["a poem"] * 20)
    actions = [Draft]


class Reviewer(Role):
    actions = [Review]
    watch = [Draft]


class Endless(Role):
    """Answers itself for ever."""

    actions = [Review]
    watch = [Review]

    async def _act(self):
        message = await super()._act()
        message.send_to = {"<self>"}
        return message


class Broken(Action):
    async def run(self, history):
        raise ValueError("the disk is on fire")


def team():
    return Team([Writer(), Reviewer()])


def endless():
    return Team([Endless(watch=None)])


def costly():
    return Team([Writer(), Reviewer()], limits=Limits(calls=0))


def frugal():
    return Team([Writer(), Reviewer()], limits=Limits(calls=0, on_limit="stop"))


def broken():
    return Team([Role(name="Clumsy", actions=[Broken])])


def silent_twins():
    """Neither has a model, and one says something to nobody first."""

    class Note(Action):
        async def run(self, history):
            return Message("a private note", send_to=NOBODY)

    return Team([Role(name=name, actions=[Note, Draft]) for name in ("Ann", "Ben")])


def deaf():
    return Team([Reviewer(), Reviewer(name="Other")])


def roles():
    return [Writer(), Reviewer()]


def with_arguments(model):
    return team()


async def later():
    return team()


def number():
    return 3


writer = Writer()
answer = 42
'''


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Each test in a folder of its own, with an index of runs beside it, and with a clean
    `sys.path` and `sys.modules` after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROLECRAFT_RUNS", str(tmp_path.parent / f"{tmp_path.name}-index"))
    modules, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def team_file(tmp_path) -> Path:
    path = tmp_path / "crew.py"
    path.write_text(TEAM)
    return path


def _result(code: int, out: str, err: str) -> SimpleNamespace:
    return SimpleNamespace(
        code=code,
        out=out,
        err=err,
        lines=[json.loads(line) for line in out.splitlines() if line.startswith("{")],
    )


@pytest.fixture
def cli():
    """`cli("run", ...)`: in this process. The result has `code`, `out`, `err`, `lines` (JSON)."""

    def call(*arguments: object) -> SimpleNamespace:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return _result(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def process():
    """The same as a process of its own."""

    def call(*arguments: object, **options) -> SimpleNamespace:
        done = subprocess.run(
            [sys.executable, "-m", "rolecraft.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            **options,
        )
        return _result(done.returncode, done.stdout, done.stderr)

    return call


class Provider(ThreadingHTTPServer):
    """Speaks OpenAI's protocol on 127.0.0.1, and keeps what it was `asked`.

    `answer` is given the provider and the body of a request, and returns a text, or a status and
    the message of an error. What `down` means is for `answer` to say.
    """

    def __init__(self, answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[dict] = []
        self.down = False
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        said = self.server.answer(self.server, body)
        if isinstance(said, tuple):
            status, message = said
            self._send(status, {"error": {"message": message}})
            return
        message = {"role": "assistant", "content": said}
        content = {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        }
        self._send(200, content)

    def _send(self, status: int, body) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args) -> None:
        pass


@pytest.fixture
def provider_that():
    """`provider_that(answer)`: a `Provider` that is served until the test ends."""
    served = []

    def serve(answer) -> Provider:
        server = Provider(answer)
        served.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    yield serve
    for server in served:
        server.shutdown()
        server.server_close()
