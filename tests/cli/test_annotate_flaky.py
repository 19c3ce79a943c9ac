"""A judge behind a flaky server labels 200 traces, killed twice: no completed call is made again.

The server is a real one of this test. It answers 429, 500 and broken-off answers in between, as a
fixed share of all attempts. Each time so many new answers have been delivered it keeps all further
callers waiting, until every delivered answer is in the cache; then the command, a process of its
own, is killed with SIGKILL. So no answer is on its way at a kill, and a question that was answered
must never come again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy.labels import read_labels
from rolecraft.trajectories import Event, Trajectory

TRACES = 200
KILLS_AFTER = (60, 130)
"""Answers delivered in all before the first and the second kill."""


class FlakyServer:
    """Speaks OpenAI's protocol on 127.0.0.1, badly. Its own thread and event loop."""

    def __init__(self) -> None:
        self.delivered: Counter[str] = Counter()
        """Whole answers that were sent, by question."""
        self.refused: Counter[str] = Counter()
        """What else was sent, by kind."""
        self.stop_at: int | None = None
        self._attempts: Counter[str] = Counter()
        self._held = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def close(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)

    async def _close(self) -> None:
        self._server.close()
        while tasks := asyncio.all_tasks(self._loop) - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _serve(self, reader, writer) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(re.search(r"(?i)content-length: (\d+)", head)[1])
                body = json.loads(await reader.readexactly(length))
                if not await self._answer(body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client was killed, or the test is over
        writer.close()

    async def _answer(self, body, writer) -> bool:
        """Answer once; False if the connection is to be closed."""
        asked = json.dumps([body["messages"], body.get("seed")])
        question = hashlib.sha256(asked.encode()).hexdigest()
        self._attempts[question] += 1
        # Which attempts fail depends on the question alone, so the test is the same each time.
        kind = int(question[:8], 16) % 10 if self._attempts[question] == 1 else None
        await asyncio.sleep(0)
        if self.stop_at is not None and sum(self.delivered.values()) >= self.stop_at:
            await self._held.wait()  # for ever: the client is killed
        if kind == 0:
            return await self._send(writer, 429, {"error": {"message": "slow down"}}, "rate limit")
        if kind == 1:
            return await self._send(writer, 500, {"error": {"message": "oops"}}, "server error")
        answer = completion(body["messages"][-1]["content"], body["messages"][0]["content"])
        if kind == 2:
            return await self._send(writer, 200, answer, "cut off", cut=40)
        self.delivered[question] += 1
        return await self._send(writer, 200, answer)

    async def _send(self, writer, status, body, failure="", cut=None) -> bool:
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
        if status == 429:
            head += "retry-after: 0.05\r\n"
        writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content[:cut])
        await writer.drain()
        if failure:
            self.refused[failure] += 1
        return cut is None


def completion(prompt: str, system: str):
    """What a judge answers: every mode it was asked about is absent."""
    text = system + prompt
    marker = re.search(r"marker is (\w+)", text)[1]
    modes = re.findall(r"(?m)^## ([a-z_.]+)", text)
    answer = {
        "marker": marker,
        "diagnosis": "They talked.",
        "findings": [{"mode": mode, "verdict": "absent", "confidence": 0.9} for mode in modes],
    }
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "judge",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": json.dumps(answer)},
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150},
    }


@pytest.fixture
def server():
    server = FlakyServer()
    yield server
    server.close()


@pytest.fixture
def traces(tmp_path) -> Path:
    for number in range(TRACES):
        events = [
            Event("message", role="user", content=f"task {number}", to=("ann",), seq=0),
            Event("message", role="ann", content=f"done {number}", to=("<all>",), seq=1),
        ]
        Trajectory(f"t{number}", {}, events).save(tmp_path / "runs" / f"run-{number}.jsonl")
    (tmp_path / "runs" / "run-7a.jsonl").write_text("{broken\n")
    return tmp_path / "runs"


@pytest.fixture
def start(server, traces):
    """Start the command as a process of its own."""
    started = []

    def start(*more: str) -> subprocess.Popen[str]:
        env = {**os.environ, "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.url}
        out = traces / "labels.jsonl"
        command = [sys.executable, "-m", "rolecraft.cli", "annotate", str(traces)]
        process = subprocess.Popen(
            [*command, "--judge", "openai/judge", "--out", str(out), *more],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def kept(traces: Path) -> int:
    return len(list((traces / ".labels.jsonl.answers").glob("??/*.json")))


async def _until(condition, process) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_200_traces_killed_twice_and_no_completed_call_is_made_again(server, traces, start):
    for stop_at in KILLS_AFTER:
        server.stop_at = stop_at
        process = start()
        await _until(lambda at=stop_at: sum(server.delivered.values()) >= at, process)
        await _until(lambda: kept(traces) == sum(server.delivered.values()), process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (traces / "labels.jsonl").exists(), "half a file looks whole"
    before = sum(server.delivered.values())
    server.stop_at = None
    out, err = start().communicate()
    assert "run-7a.jsonl" in err, "a broken file is told"
    assert f"{TRACES - before} calls made" in out
    assert f"{before} reused" in out
    assert set(server.delivered.values()) == {1}, "a completed call was made again"
    assert len(server.delivered) == TRACES
    assert min(server.refused[kind] for kind in ("rate limit", "server error", "cut off")) > 0
    rows = read_labels(traces / "labels.jsonl")
    assert [row.trace for row in rows] == [
        str(traces / f"run-{number}.jsonl") for number in range(TRACES)
    ]
    assert all(row.verdict("derailment") == "absent" for row in rows)

    # Once more: nothing is asked, and the labels are the same.
    labels = (traces / "labels.jsonl").read_bytes()
    again = start("--concurrency", "2")
    out, _ = again.communicate()
    assert "0 calls made, 200 reused" in out
    assert again.returncode == ExitCode.INCOMPLETE, "because of the broken file"
    assert (traces / "labels.jsonl").read_bytes() == labels
    assert len(server.delivered) == TRACES
