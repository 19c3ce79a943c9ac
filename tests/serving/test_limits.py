"""What one request may take of the server: time to come and to be read, memory, work in vain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from rolecraft.errors import ModelUnavailable, UsageError
from rolecraft.serving import Settings, make_app

HELLO = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}


class Client:
    """A client that the test plays message by message, without a socket between."""

    def __init__(self, app: Any, path: str = "/v1/chat/completions") -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.answers: list[dict[str, Any]] = []
        self.reads = asyncio.Event()
        self.reads.set()
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        scope |= {"query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": ""}
        self.over = asyncio.create_task(app(scope, self.sent.get, self._answer))

    def send(self, data: bytes, *, more: bool = False) -> None:
        self.sent.put_nowait({"type": "http.request", "body": data, "more_body": more})

    def leave(self) -> None:
        self.sent.put_nowait({"type": "http.disconnect"})

    @property
    def status(self) -> int:
        status: int = self.answers[0]["status"]
        return status

    async def _answer(self, message: dict[str, Any]) -> None:
        self.answers.append(message)
        await self.reads.wait()


def app_of(load: Callable[..., Any], **settings: Any) -> Any:
    return make_app(load(), Settings(name="tiny", **settings))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.01)


async def test_a_request_has_its_place_from_the_start_of_its_body(load: Callable[..., Any]) -> None:
    app = app_of(load, max_answers=1)
    desk = app.state.desk
    slow = Client(app)
    slow.send(b" ", more=True)
    await until(lambda: desk.reading == 1)
    assert desk.under_way == 1
    late = Client(app)
    await late.over
    assert late.status == 503
    slow.leave()
    await slow.over
    assert (desk.under_way, desk.reading) == (0, 0)


async def test_a_body_that_does_not_come_is_given_up(load: Callable[..., Any]) -> None:
    app = app_of(load, read_seconds=0.1)
    slow = Client(app)
    slow.send(b" ", more=True)
    await slow.over
    assert slow.status == 408
    assert (app.state.desk.under_way, app.state.desk.reading) == (0, 0)


async def test_bodies_that_are_being_read_are_bounded_together(load: Callable[..., Any]) -> None:
    app = app_of(load, max_body=1000, max_reading=1500)
    first, second, large = Client(app), Client(app), Client(app)
    first.send(b" " * 900, more=True)
    await until(lambda: app.state.desk.reading == 900)
    second.send(b" " * 900, more=True)
    await second.over
    assert second.status == 503
    large.send(b" " * 1001, more=True)
    await large.over
    assert large.status == 413
    first.send(json.dumps(HELLO).encode())
    await first.over
    assert first.status == 200
    assert app.state.desk.reading == 0


async def test_a_client_that_does_not_read_its_stream_loses_its_place(
    load: Callable[..., Any],
) -> None:
    app = app_of(load, write_seconds=0.1)
    client = Client(app)
    client.reads.clear()
    client.send(json.dumps({**HELLO, "stream": True}).encode())
    await client.over
    assert len(client.answers) == 1
    assert app.state.desk.under_way == 0
    other = Client(app)
    other.send(json.dumps({**HELLO, "stream": True}).encode())
    await other.over
    assert other.answers[-2]["body"] == b"data: [DONE]\n\n"


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="max_reading=10"):
        Settings(name="tiny", max_body=11, max_reading=10)


async def test_nothing_is_tokenised_of_what_is_refused_anyway(
    load: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    server = serve(load(), max_answers=100)
    encode, seen = server.model.tokenizer.encode, []
    server.model.tokenizer.encode = lambda text, **how: seen.append(text) or encode(text, **how)
    text = "a " * 50_000
    chat = {"model": "tiny", "messages": [{"role": "user", "content": text}]}
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        for path, body, code in (
            ("completions", {"model": "tiny", "prompt": ["a"] * 51, "n": 2}, None),
            ("completions", {"model": "tiny", "prompt": ["a"] * 5000}, "invalid_value"),
            ("completions", {"model": "tiny", "prompt": text}, "context_length_exceeded"),
            ("chat/completions", chat, "context_length_exceeded"),
        ):
            refused = await client.post(path, json=body)
            assert refused.status_code == 400, refused.text
            assert refused.json()["error"]["code"] == code, refused.text
        assert not seen
        assert (await client.post("completions", json={"model": "tiny", "prompt": "a"})).is_success
        assert seen == ["a"]


@pytest.mark.parametrize(
    ("path", "field", "value", "param"),
    [
        ("completions", "prompt", [None] * 50_000, "prompt.0"),
        ("completions", "prompt", [[1], "a"], "prompt"),
        ("chat/completions", "messages", [{"role": "x"}] * 5000, "messages.0.role"),
        ("chat/completions", "messages", HELLO["messages"] * 10_001, "messages"),
        (
            "chat/completions",
            "messages",
            [{"role": "user", "content": [{"type": "text", "text": ""}] * 9000}] * 3,
            "messages",
        ),
    ],
)
async def test_of_many_faults_the_first_is_told(
    load: Callable[..., Any], path: str, field: str, value: Any, param: str
) -> None:
    app = app_of(load)
    client = Client(app, f"/v1/{path}")
    client.send(json.dumps({"model": "tiny", field: value}).encode())
    await client.over
    error = json.loads(client.answers[1]["body"])["error"]
    assert client.status == 400
    assert error["param"].startswith(param)
    assert len(error["message"]) < 300


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_without_a_proper_schema_is_refused_before_anything_is_sampled(
    load: Callable[..., Any], stream: bool
) -> None:
    app = app_of(load)
    client = Client(app)
    function = {"name": "f", "parameters": {"type": "nonsense", "properties": [1]}}
    tools = [{"type": "function", "function": function}]
    client.send(json.dumps({**HELLO, "tools": tools, "stream": stream}).encode())
    await client.over
    assert client.status == 400
    error = json.loads(client.answers[1]["body"])["error"]
    assert error["param"] == "tools"
    assert "no JSON Schema" in error["message"]


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (ModelUnavailable("The engine died."), 503, "5"),
        (UsageError("Set the tokenizer right."), 500, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_goes_wrong_on_this_side_is_not_the_clients_fault(
    load: Callable[..., Any],
    serve: Callable[..., Any],
    error: Exception,
    status: int,
    retry: str | None,
    stream: bool,
) -> None:
    server = serve(load())

    async def fail(request: Any) -> Any:
        raise error

    server.model.sample = fail
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        failed = await client.post("chat/completions", json={**HELLO, "stream": stream})
    assert failed.status_code == status
    assert failed.headers.get("retry-after") == retry
    assert ("Set the tokenizer" in failed.text) is False
