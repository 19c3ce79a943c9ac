"""A real chat server on 127.0.0.1 that answers, refuses, dawdles and breaks off as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rolecraft.models import LiteLLMModel, Retries, allow_real_models
from rolecraft.models.rate_limiter import RateLimiter


@dataclass
class Answer:
    """What the server does with one request."""

    body: Any = b""
    """Bytes as they are; anything else as JSON."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """Close the connection after so many bytes of the body."""
    drop: bool = False
    """Close the connection without a word."""
    never: bool = False
    """Keep the client waiting."""
    drip: bool = False
    """Send a space now and then, for ever."""
    pieces: list[bytes] | None = None
    """A body in pieces, each of which but the first waits for `ChatServer.go_on`."""


def chat(text: str | None = "hello", *, finish: str | None = "stop", **message: Any) -> Answer:
    """A chat completion; 5 tokens in, 2 out."""
    return Answer(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "some-model",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": text, **message},
                }
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        }
    )


def stream(
    *texts: str,
    finish: str | None = "stop",
    usage: tuple[int, int] | None = (5, 2),
    deltas: Sequence[dict[str, Any]] = (),
    done: bool = True,
    paced: bool = False,
) -> Answer:
    """A chat completion as server-sent events, one for each text, then one for each delta."""
    about = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "some-model",
    }
    parts = [{"role": "assistant", "content": ""}, *({"content": text} for text in texts), *deltas]
    chunks: list[dict[str, Any]] = [
        {**about, "choices": [{"index": 0, "delta": part, "finish_reason": None}]} for part in parts
    ]
    if finish is not None:
        end = {"index": 0, "delta": {}, "finish_reason": finish}
        chunks.append({**about, "choices": [end]})
    if usage is not None:
        told = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
        chunks.append({**about, "choices": [], "usage": told})
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    if done:
        lines.append(b"data: [DONE]\n\n")
    return Answer(
        b"".join(lines),
        headers={"content-type": "text/event-stream"},
        pieces=lines if paced else None,
    )


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Answer:
    """An error as OpenAI's API words it. Underscores in header names become hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"error": {"message": message, "code": code}}, status, named)


class ChatServer:
    """Runs in a thread with an event loop of its own. The last answer given is repeated."""

    chat = staticmethod(chat)
    error = staticmethod(error)
    stream = staticmethod(stream)
    Answer = Answer

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        """The JSON bodies that came in."""
        self.headers: list[dict[str, str]] = []
        self.asked = threading.Event()
        """Set once a request has come in."""
        self._answers: deque[Answer] = deque([chat()])
        self._wait_for = 1
        self._together: asyncio.Event | None = None
        self._permits: asyncio.Queue[None] = asyncio.Queue()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        started = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = self._call(started)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def answers(self, *answers: Answer) -> None:
        self._answers = deque(answers)

    def answer_when(self, requests: int) -> None:
        """Answer nobody before so many requests have come in."""
        self._wait_for = requests

    def go_on(self) -> None:
        """Let the next piece of an answer in pieces out."""
        self._loop.call_soon_threadsafe(self._permits.put_nowait, None)

    @property
    def prompts(self) -> list[list[dict[str, Any]]]:
        return [request["messages"] for request in self.requests]

    def close(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)

    async def _close(self) -> None:
        self._server.close()
        while tasks := asyncio.all_tasks(self._loop) - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio's streams report a cancelled handler as an unhandled error: end it quietly.
        over = (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError)
        with contextlib.suppress(*over):
            while await self._exchange(reader, writer):
                pass
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.splitlines()[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.headers.append(headers)
        self.requests.append(json.loads(body))
        self.asked.set()
        answer = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]
        if self._together is None:
            self._together = asyncio.Event()
        if len(self.requests) >= self._wait_for:
            self._together.set()
        await self._together.wait()
        if answer.never:
            await asyncio.Event().wait()
        if answer.drop:
            return False
        if answer.drip:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        content = (
            answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        )
        fields = {
            "content-type": "application/json",
            "content-length": str(len(content)),
            **answer.headers,
        }
        lines = [f"HTTP/1.1 {answer.status} Status", *(f"{k}: {v}" for k, v in fields.items())]
        if answer.pieces is not None:
            content = answer.pieces[0]
        writer.write("\r\n".join([*lines, "", ""]).encode() + content[: answer.cut_after])
        await writer.drain()
        for piece in (answer.pieces or ())[1:]:
            await self._permits.get()
            writer.write(piece)
            await writer.drain()
        return answer.cut_after is None


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.close()


class Hurried(RateLimiter):
    """Its clock runs so fast that what a server asks of everybody is over in a millisecond."""

    def _look_in(self, wait: float) -> None:
        super()._look_in(0.001)


@pytest.fixture
def waits() -> list[float]:
    """The seconds that the model of `make_model` asked to wait. Nobody waits."""
    return []


@pytest.fixture
async def make_model(
    server: ChatServer, waits: list[float]
) -> AsyncIterator[Callable[..., LiteLLMModel]]:
    """Makes models of the server, and closes them. Real models are allowed meanwhile."""
    made: list[LiteLLMModel] = []
    limiter = Hurried(clock=lambda: time.monotonic() * 1e6)

    async def note(seconds: float) -> None:
        waits.append(seconds)

    def make(name: str = "openai/some-model", **settings: Any) -> LiteLLMModel:
        policy = Retries(sleep=note, **settings.pop("policy", {}))
        settings = {"api_key": "sk-test", "base_url": server.url, "retries": policy, **settings}
        settings.setdefault("limiter", limiter)
        made.append(LiteLLMModel(name, **settings))
        return made[-1]

    with allow_real_models():
        yield make
    for model in made:
        await model.aclose()
