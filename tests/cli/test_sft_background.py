"""A real fine-tuning in the background: refused twice, stopped, resumed, killed, taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.training.background import RunRecord, progress_of

pytestmark = pytest.mark.slow
pytest.importorskip("trl")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """With a tiny model and something to learn."""
    from rolecraft.models.tiny_chat import tiny_chat_model

    monkeypatch.setenv("ROLECRAFT_RUNS", str(tmp_path / "index"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    tiny_chat_model(hidden=32, heads=2).save(tmp_path / "tiny")
    rows = [
        {"messages": [
            {"role": "user", "content": f"{number % 7}?"},
            {"role": "assistant", "content": str(number % 7) * (1 + number % 4)},
        ]}
        for number in range(40)
    ]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "talks.jsonl").write_text(text)
    yield tmp_path
    record = RunRecord.read(tmp_path / "out")
    for process in (record.process, record.supervisor, *record.stale()) if record else ():
        if process is not None:
            process.send(signal.SIGKILL)
            process.wait(60)


def rolecraft(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rolecraft.cli", *map(str, words)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def sft(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    given = ("--model", "tiny", "--data", "talks.jsonl", "--out", "out", "--rank", 4)
    often = ("--batch", 2, "--log-steps", 1, "--save-steps", 5)
    return rolecraft(folder, "sft", *given, *often, *words)


def wait_for(condition, what: str) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until, f"this did not come: {what}"
        time.sleep(0.1)


def step(folder: Path) -> float:
    return progress_of(folder / "out").get("step", 0)


def test_a_fine_tuning_is_refused_twice_stopped_resumed_killed_and_taken_up(folder) -> None:
    out = folder / "out"
    started = sft(folder, "--steps", 100_000, "--background")
    assert started.returncode == 0, started.stderr
    record = RunRecord.read(out)
    assert f"process {record.process.pid}" in started.stdout
    wait_for(lambda: step(folder) >= 2 or not RunRecord.read(out).alive, "two steps")
    assert RunRecord.read(out).alive, record.log.read_text()

    second = sft(folder, "--steps", 1)
    assert second.returncode == ExitCode.ERROR
    assert f"process {record.process.pid}" in second.stderr
    assert str(record.log) in second.stderr

    stopped = rolecraft(folder, "runs", "stop", "out")
    assert "was stopped (exit code 143)" in stopped.stdout, stopped.stdout + stopped.stderr
    at = step(folder)
    checkpoints = sorted(path.name for path in (out / "checkpoints").iterdir())
    assert f"checkpoint-{at:g}" in checkpoints, (checkpoints, record.log.read_text())

    assert rolecraft(folder, "runs", "resume", "out").returncode == 0
    wait_for(lambda: step(folder) > at + 7, "steps after the resume")
    RunRecord.read(out).process.send(signal.SIGKILL)
    assert RunRecord.read(out).process.wait(60)
    listed = rolecraft(folder, "runs", "list", "--json")
    (row,) = map(json.loads, listed.stdout.splitlines())
    wait_for(lambda: RunRecord.read(out).state() == "killed", "the end in the record")
    assert row["loss"] > 0
    assert row["stale"] == []

    # With its latest checkpoint: at most as many steps as lie between two are done again.
    assert rolecraft(folder, "runs", "resume", "out").returncode == 0
    wait_for(lambda: step(folder) > at + 20, "steps after kill -9")
    stopped = rolecraft(folder, "runs", "stop", "out")
    assert "was stopped (exit code 143)" in stopped.stdout, stopped.stdout + stopped.stderr


def test_two_processes_in_the_background_stop_together(folder) -> None:
    started = sft(folder, "--steps", 100_000, "--background", "--processes", 2)
    assert started.returncode == 0, started.stderr
    out = folder / "out"
    record = RunRecord.read(out)
    assert record.command[-2:] == ("--processes", "2")
    wait_for(lambda: step(folder) >= 2 or not RunRecord.read(out).alive, "two steps")
    assert RunRecord.read(out).alive, record.log.read_text()
    stopped = rolecraft(folder, "runs", "stop", "out")
    assert "was stopped (exit code 143)" in stopped.stdout, stopped.stdout + stopped.stderr
    assert RunRecord.read(out).stale() == []
    assert f"checkpoint-{step(folder):g}" in os.listdir(out / "checkpoints")
