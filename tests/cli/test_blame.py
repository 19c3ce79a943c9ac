"""`rolecraft blame`: a line a trace, which `rolecraft agreement` scores."""

from __future__ import annotations

import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy.labels import Blame, Labels, read_labels, write_labels
from rolecraft.trajectories import Event, Trajectory


@pytest.fixture
def failed(tmp_path):
    """Three runs; the second message of each is the mistake."""
    for number in range(3):
        events = [
            Event("message", role="user", content="add 6 and 7", to=("ann",), seq=0),
            Event("message", role="ann", content=f"I take run {number}.", seq=1),
            Event("message", role="ben", content="It is surely 12.", seq=2),
            Event("message", role="ann", content="Good, 12 then.", seq=3),
        ]
        Trajectory(f"t{number}", {}, events).save(tmp_path / "runs" / f"run-{number}.jsonl")
    return tmp_path / "runs"


@pytest.fixture
def server():
    """A real chat server that blames ben at event 2, in the form of whatever it is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            prompts.append(asked["messages"])
            system = asked["messages"][0]["content"]
            answer = {
                "marker": re.search(r"The fence\s+marker is (\w+)", system)[1],
                "role": "ben" if server.steps[-1] == 2 else "nobody of theirs",
                "step": server.steps[-1],
                "reason": "6 and 7 are 13",
            }
            message = {"role": "assistant", "content": json.dumps(answer)}
            body = {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100},
            }
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    prompts: list = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.prompts = prompts
    server.steps = [2]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_its_lines_are_labels_that_agreement_scores(process, cli, failed, server, tmp_path):
    (failed / "run-1a.jsonl").write_text("{broken")
    env = {
        **os.environ,
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
    }
    out, gold = tmp_path / "blame.jsonl", tmp_path / "gold.jsonl"
    arguments = ["blame", failed, "--judge", "openai/m", "--strategy", "all-at-once", "--out", out]
    result = process(*arguments, "--json", env=env)
    assert result.code == ExitCode.INCOMPLETE, result.err
    assert "run-1a.jsonl" in result.err
    assert [line["trace"] for line in result.lines] == [
        str(failed / f"run-{number}.jsonl") for number in range(3)
    ]
    assert all(line["decisive"] == {"role": "ben", "step": 2} for line in result.lines)
    assert "3 calls made" in result.err
    assert "300 prompt" not in result.err
    assert "270 prompt and 30 answer tokens" in result.err
    assert [json.loads(line) for line in out.read_text().splitlines()] == result.lines
    assert len(server.prompts) == 3

    rows = read_labels(out)
    golden = [
        Labels(trace=row.trace, annotator="people", decisive=Blame("ben", 2 if at else 3))
        for at, row in enumerate(rows)
    ]
    write_labels(golden, gold)
    scored = cli("agreement", gold, out)
    assert scored.code == ExitCode.OK, scored.err
    assert "blame:all-at-once:openai/m" in scored.out
    assert "3/3" in scored.out or "3 of 3" in scored.out or "1.00" in scored.out

    again = process(*arguments, env=env)
    assert "0 calls made, 3 reused" in again.out
    assert "run-0.jsonl: ben, event 2: 6 and 7 are 13" in again.out
    assert "In 3 of 3 traces somebody is blamed, in 3 with the step." in again.out
    assert len(server.prompts) == 3


def test_a_strategy_that_there_is_not_is_wrong_usage(cli, failed):
    result = cli("blame", failed, "--judge", "openai/o3", "--strategy", "binary")
    assert result.code == ExitCode.USAGE
    assert "binary-search" in result.err


def test_a_judge_is_needed(cli, failed):
    result = cli("blame", failed)
    assert result.code == ExitCode.USAGE
    assert "--judge" in result.err


def test_a_trace_is_never_overwritten(cli, failed):
    trace = failed / "run-0.jsonl"
    before = trace.read_bytes()
    result = cli("blame", trace, "--judge", "openai/o3", "--out", trace)
    assert result.code == ExitCode.USAGE
    assert trace.read_bytes() == before


def test_it_asks_the_model_it_is_given(cli, failed, monkeypatch):
    """Tests forbid real models: that this one is refused shows that it was asked."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    result = cli("blame", failed, "--judge", "openai/gpt-4o-mini")
    assert result.code == ExitCode.ERROR
    assert "openai/gpt-4o-mini" in result.err


def test_a_record_that_no_question_can_show_is_said_with_the_way_out(cli, tmp_path, monkeypatch):
    """Nothing is asked: the model would be refused here."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    said = [Event("message", role="ann", content="la " * 400, seq=0)]
    Trajectory("long", {}, said).save(tmp_path / "long.jsonl")
    options = ("--judge", "openai/gpt-4o-mini", "--strategy", "all-at-once", "--window", "1000")
    result = cli("blame", tmp_path / "long.jsonl", *options)
    assert result.code == ExitCode.INCOMPLETE
    assert "nobody is blamed: the record has 1,2" in result.out
    assert "Take the strategy 'evidence-first'" in " ".join(result.out.split())
    assert "0 calls made" in result.out


@pytest.mark.slow
def test_without_one_answer_that_can_be_used_it_did_not_succeed(process, failed, server):
    server.steps.append(99)  # no such event
    judge = ["--judge", "openai/m", "--base-url", f"http://127.0.0.1:{server.server_port}/v1"]
    result = process("blame", failed, *judge, "--strategy", "all-at-once")
    assert result.code == ExitCode.INCOMPLETE, result.err
    assert "No answer could be used" in result.err
    assert "In 0 of 3 traces somebody is blamed" in result.out
