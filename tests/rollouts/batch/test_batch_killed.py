"""R4: killed anywhere and called again, a run comes to what an uninterrupted one comes to."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import JournalError
from rolecraft.rollouts.batch.ledger import entries

PROGRAM = """
import asyncio, json, os, signal, sys
from pathlib import Path
from rolecraft import FunctionModel, Role, Team
from rolecraft.models import Completion
from rolecraft.rollouts.batch import BatchConfig
from rolecraft.rollouts.batch.runner import run_batch

folder = Path(sys.argv[1])
limit = int(sys.argv[2])
if limit:
    import resource
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
paid = os.open(folder / "paid.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

async def answer(call):
    prompt = call.messages[-1].content
    await asyncio.sleep(0.002)
    if not limit:
        os.write(paid, (prompt + "\\n").encode())
    if prompt.endswith("7"):
        raise ValueError("no luck")
    return Completion(text="answer to " + prompt, reasoning="" if prompt.endswith("3") else "why")

team = Team([Role(name="R", goal="to answer", tools=[])], model=FunctionModel(answer))
from rolecraft import Action
class Speak(Action):
    async def run(self, history):
        return await self.ask(history[-1].content)
team = Team([Role(name="R", actions=[Speak])], model=FunctionModel(answer))
report = asyncio.run(run_batch(
    folder / "rows.jsonl", team, BatchConfig(samples=2, concurrency=8), folder=folder / "out"
))
print(report.ran, report.complete)
"""
ROWS = 60
CONCURRENCY = 8


@pytest.fixture
def start(tmp_path: Path) -> Any:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    rows = [f"p{n % 50}" for n in range(ROWS)]  # ten of them twice
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"prompt": p}) + "\n" for p in rows))

    def begin(limit: int = 0) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(program), str(tmp_path), str(limit)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin


def final(out: Path) -> tuple[Counter[Any], list[Any], dict[str, Any]]:
    """What a run came to: what became of each item, its training rows, its numbers."""
    last = {entry.item: (entry.status, entry.error) for entry in entries(out / "ledger.jsonl")}
    rows = [json.loads(line) for line in (out / "openai.jsonl").read_text().splitlines()]
    numbers = json.loads((out / "statistics.json").read_text())
    kept = ("items", "statuses", "turns", "turns_with_reasoning", "training_samples", "left_aside")
    return Counter(last.items()), rows, {name: numbers[name] for name in kept}


def grown(path: Path, size: int, process: subprocess.Popen[str]) -> None:
    """Wait until a file has so many bytes, or the process is over."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.stat().st_size >= size:
            return
        time.sleep(0.0005)


def killed_again_and_again(tmp_path: Path, start: Any, times: int) -> None:
    whole = start()
    assert whole.communicate(timeout=120)[0].split() == ["120", "True"]
    out = tmp_path / "out"
    expected = final(out)
    (tmp_path / "paid.txt").unlink()
    size = (out / "samples.jsonl").stat().st_size
    out.rename(tmp_path / "uninterrupted")

    generator = random.Random(times)
    points = sorted(generator.randrange(1, size) for _ in range(times))
    kills = 0
    for point in points:
        process = start()
        grown(out / "samples.jsonl", point, process)
        time.sleep(generator.random() * 0.004)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    last = start()
    printed, said = last.communicate(timeout=120)
    assert printed.split()[1:] == ["True"], said
    assert kills
    assert final(out) == expected
    samples = [
        json.loads(line)["entry"] for line in (out / "samples.jsonl").read_text().splitlines()
    ]
    found = Counter((e["row"], e.get("occurrence", 0), e.get("sample", 0)) for e in samples)
    assert max(found.values()) == 1
    # At most the calls under way at a kill were repeated.
    paid = len((tmp_path / "paid.txt").read_text().splitlines())
    assert 2 * ROWS <= paid <= 2 * ROWS + kills * CONCURRENCY


def test_a_run_that_is_killed_five_times(tmp_path: Path, start: Any) -> None:
    killed_again_and_again(tmp_path, start, 5)


@pytest.mark.slow
def test_a_run_that_is_killed_at_fifty_random_points(tmp_path: Path, start: Any) -> None:
    killed_again_and_again(tmp_path, start, 50)


def test_a_disk_that_fills_keeps_what_is_finished_and_the_run_goes_on_when_there_is_room(
    tmp_path: Path, start: Any
) -> None:
    """RLIMIT_FSIZE: no file of the process may be larger, so the samples' runs full."""
    process = start(12_000)
    printed, said = process.communicate(timeout=120)
    assert process.returncode != 0, printed
    assert JournalError.__name__ in said
    assert "samples.jsonl" in said
    out = tmp_path / "out"
    finished = (out / "samples.jsonl").read_bytes()
    assert 10_000 < len(finished) <= 12_000
    assert finished.endswith(b"\n")
    kept = len(finished.splitlines())
    process = start()
    printed, said = process.communicate(timeout=120)
    assert printed.split()[1:] == ["True"], said
    assert (out / "samples.jsonl").read_bytes().startswith(finished)
    paid = (tmp_path / "paid.txt").read_text().splitlines()
    assert len(paid) <= 2 * ROWS - kept  # none of them was asked again
