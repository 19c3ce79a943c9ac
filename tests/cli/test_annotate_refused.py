"""A judge that refuses, is not there, or is slow: what is said, once, and what becomes of labels.

The judges are real servers of these tests, and the command is a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy.labels import read_labels
from rolecraft.trajectories import Event, Trajectory

TRACES = 8


@pytest.fixture
def runs(tmp_path):
    for number in range(TRACES):
        events = [
            Event("message", role="user", content=f"task {number}", to=("ann",), seq=0),
            Event("message", role="ann", content=f"done {number}", to=("<all>",), seq=1),
        ]
        Trajectory(f"t{number}", {}, events).save(tmp_path / "runs" / f"run-{number}.jsonl")
    return tmp_path / "runs"


class Server(ThreadingHTTPServer):
    """Speaks OpenAI's protocol: refuses with `refuse`, or finds every mode absent."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refuse = None
        self.hold = threading.Event()
        self.hold.set()
        self.asked = []
        self.came = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((asked, self.headers.get("authorization")))
        if len(self.server.asked) > 1:
            self.server.came.set()
            self.server.hold.wait(60)
        if self.server.refuse is not None:
            status, body = 400, {"error": {"message": self.server.refuse}}
        else:
            status, body = 200, _answer(asked["messages"])
        content = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:
            pass  # the client was interrupted

    def log_message(self, *args):
        pass


def _answer(messages):
    question, system = messages[-1]["content"], messages[0]["content"]
    modes = question.rsplit("described above: ", 1)[1].rstrip(".").split(", ")
    said = {
        "marker": re.search(r"The fence\s+marker is (\w+)", system + question)[1],
        "diagnosis": "d",
        "findings": [{"mode": mode, "verdict": "absent", "confidence": 0.9} for mode in modes],
    }
    message = {"role": "assistant", "content": json.dumps(said)}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100},
    }


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.hold.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def env():
    return {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}


@pytest.mark.slow
def test_a_judge_that_refuses_is_told_once_with_its_reason(process, runs, server, env, tmp_path):
    judge = ["--judge", "openai/m", "--base-url", server.url]
    out = tmp_path / "labels.jsonl"
    assert process("annotate", runs, *judge, "--out", out, env=env).code == ExitCode.OK
    before = out.read_bytes()

    server.refuse = "The number seventeen is forbidden here."
    result = process("annotate", runs, *judge, "--out", out, "--no-cache", env=env)
    assert result.code == ExitCode.INCOMPLETE
    assert result.err.count("seventeen") == 1
    told = " ".join(result.err.split())
    assert re.search(rf"The judge refused 8 traces \({re.escape(str(runs))}/run-\d.jsonl, ", told)
    assert "none left out" not in told
    assert "The same command goes on" not in told
    assert "It would refuse again" in told
    assert "no judge was given" not in result.out
    assert "the judge did not look at the trace" in result.out
    assert "is left as it was: it has more labels" in told
    assert out.read_bytes() == before


@pytest.mark.slow
def test_a_server_that_is_not_there_costs_a_few_lines(process, runs, env):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    judge = ["--judge", "openai/m", "--base-url", url, "--concurrency", "2"]
    result = process("annotate", runs, *judge, env=env)
    assert result.code == ExitCode.INCOMPLETE
    assert result.err.count("Further attempts are only counted") == 1
    assert "cannot be reached" in result.err
    assert "LiteLLMModel" not in result.err + result.out
    assert "Traceback" not in result.err
    attempts = [line for line in result.err.splitlines() if "attempt" in line]
    assert len(attempts) <= 4


@pytest.mark.slow
def test_limits_a_server_of_ones_own_and_a_line_for_each_trace(
    process, runs, server, env, tmp_path
):
    out = tmp_path / "labels.jsonl"
    judge = ["--judge", "openai/m", "--base-url", server.url, "--max-tokens", "777"]
    result = process("annotate", runs, *judge, "--calls", "3", "--out", out, env=env)
    assert result.code == ExitCode.INCOMPLETE
    assert f"with {TRACES - 3} not looked at" in result.err
    assert len(server.asked) == 3
    for asked, key in server.asked:
        assert 777 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))
        assert key == "Bearer none"
    for row in read_labels(out):
        assert f"{row.trace}: no failure found" in result.err
    assert len(read_labels(out)) == 3

    unpriced = process("annotate", runs, *judge, "--usd", "1", env=env)
    assert unpriced.code == ExitCode.USAGE
    assert "`--tokens` or `--calls`" in unpriced.err
    assert "prices=" not in unpriced.err
    assert len(server.asked) == 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to another process")
def test_an_interrupted_judge_says_what_was_paid_and_that_it_goes_on(runs, server, env, tmp_path):
    server.hold.clear()  # the second call hangs
    command = [sys.executable, "-m", "rolecraft.cli", "annotate", runs, "--judge", "openai/m"]
    options = ["--base-url", server.url, "--out", tmp_path / "labels.jsonl", "--concurrency", "1"]
    process = subprocess.Popen(
        [*map(str, (*command, *options))],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.came.wait(60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "so far: 1 call made" in err
    assert "The same command goes on, and pays for no answer twice" in err


def test_labels_of_other_traces_are_not_replaced(cli, runs, tmp_path):
    out = tmp_path / "labels.jsonl"
    assert cli("annotate", runs, "--out", out).code == ExitCode.OK
    before = out.read_bytes()
    result = cli("annotate", runs / "run-3.jsonl", "--out", out)
    assert result.code == ExitCode.USAGE
    assert f"labels of {TRACES - 1} traces that this run does not look at" in result.err
    assert "Name another file" in result.err
    assert out.read_bytes() == before
    assert cli("annotate", runs, "--out", out).code == ExitCode.OK, "the same command goes on"


def test_an_address_is_checked(cli, runs):
    for url, judge, said in [
        ("localhost:8000", "openai/m", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1", "human", "Write openai/NAME"),
    ]:
        result = cli("annotate", runs, "--judge", judge, "--base-url", url)
        assert result.code == ExitCode.USAGE
        assert said in result.err
