"""A judge behind a real chat server: what LiteLLM sends and what comes back, tools included."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rolecraft.failure_taxonomy import MODES, Judge
from rolecraft.models import LiteLLMModel, allow_real_models
from rolecraft.trajectories import Event, Trajectory

Make = Callable[..., Trajectory]
WORDS = "here we hand it over unchecked"


class Chat(BaseHTTPRequestHandler):
    """Reports `verification.absent` where it reads the words, and looks for them with tools."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(asked)  # type: ignore[attr-defined]
        if asked.get("tools") and self.server.refuses_tools:  # type: ignore[attr-defined]
            return self._send({"error": {"message": "tools are not supported"}}, 400)
        if asked.get("tools") and asked["messages"][-1]["role"] == "user":
            arguments = json.dumps({"text": WORDS})
            function = {"name": "search_events", "arguments": arguments}
            call = {"id": "call-1", "type": "function", "function": function}
            return self._say(None, "tool_calls", tool_calls=[call])
        return self._say(self._judged(asked["messages"]), "stop")

    def _judged(self, messages: list[dict[str, Any]]) -> str:
        found = re.search(r"marker is (\w+)\.\Z", messages[0]["content"])
        assert found is not None
        record = "\n".join(m.get("content") or "" for m in messages[1:])
        last = re.findall(r"described above: (.*)\.", record)[-1]
        rows: list[dict[str, Any]] = [{"mode": m, "verdict": "absent"} for m in last.split(", ")]
        heads = re.split(rf"^{found[1]} event ", record, flags=re.MULTILINE)[1:]
        for head in heads:
            if WORDS in head:
                number, role = re.match(r"(\d+): message, (\w+)", head).groups()  # type: ignore[union-attr]
                row = {"mode": "verification.absent", "verdict": "present", "role": role}
                row |= {"events": [int(number)], "quote": WORDS}  # type: ignore[dict-item]
                rows = [row, *(r for r in rows if r["mode"] != "verification.absent")]
        return json.dumps({"marker": found[1], "diagnosis": "d", "findings": rows, "digest": "n"})

    def _say(self, text: str | None, finish: str, **message: Any) -> None:
        said = {"role": "assistant", "content": text, **message}
        choice = {"index": 0, "finish_reason": finish, "message": said}
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        self._send(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [choice],
                "usage": usage,
            }
        )

    def _send(self, document: Any, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    made.requests = []
    made.refuses_tools = False
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
async def model(server: Any) -> AsyncIterator[LiteLLMModel]:
    address = f"http://127.0.0.1:{server.server_port}/v1"
    with allow_real_models():
        made = LiteLLMModel("openai/some-model", base_url=address, api_key="sk-test")
        yield made
        await made.aclose()


def talk(trace: Make, events: int) -> Trajectory:
    told = [
        Event("message", role="ada", content=f"Turn {n}. {'word ' * 200}{WORDS if n == 4 else ''}")
        for n in range(events)
    ]
    return trace(*told, task="A task.")


async def test_a_trace_that_fits_is_one_request(
    trace: Make, server: Any, model: LiteLLMModel
) -> None:
    opinion = await Judge(model).judge(talk(trace, 6))
    (request,) = server.requests
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert "tools" not in request
    assert opinion.usage.prompt_tokens == 5
    assert {row.mode: row.verdict for row in opinion.findings} == {
        mode: "present" if mode == "verification.absent" else "absent" for mode in MODES
    }


async def test_a_long_trace_is_searched_with_tools_over_http(
    trace: Make, server: Any, model: LiteLLMModel
) -> None:
    judge = Judge(model, window=20_000)
    opinion = await judge.judge(talk(trace, 60), modes=["verification.absent"])
    asked, told = [request for request in server.requests if request.get("tools")]
    assert [tool["function"]["name"] for tool in asked["tools"]] == [
        "list_events",
        "read_event",
        "search_events",
    ]
    call, result = told["messages"][-2:]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] == "call-1"
    assert WORDS in result["content"]
    (finding,) = opinion.findings
    assert (finding.verdict, finding.events, finding.quote) == ("present", (4,), WORDS)
    assert not opinion.notes


async def test_a_server_without_tools_leaves_the_windows(
    trace: Make, server: Any, model: LiteLLMModel
) -> None:
    server.refuses_tools = True
    judge = Judge(model, window=20_000)
    opinion = await judge.judge(talk(trace, 60), modes=["verification.absent"])
    assert opinion.findings[0].verdict == "unknown"
    assert "tools are not supported" in opinion.notes[0]
    assert opinion.coverage == 1.0
