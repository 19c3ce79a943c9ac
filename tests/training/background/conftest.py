"""A long run to practise on, and a way to wait for what is not done at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rolecraft.training.background import ProcessId, RunError, RunRecord

RUN = '''
"""Counts steps until it is told to stop, or has done as many as it is to."""
import json, sys, time
from pathlib import Path

sys.path.insert(0, {root!r})
from rolecraft.training.background import StopSignals, claim

output, steps = Path(sys.argv[1]), int(sys.argv[2])
done = output / "step"
with claim(output), StopSignals() as stop:
    step = int(done.read_text()) if "--resume" in sys.argv else 0
    print("from step", step)
    while step < steps and not stop.asked:
        step += 1
        print("step", step)
        with (output / "log.jsonl").open("a") as log:
            log.write(json.dumps({{"step": step, "loss": 1 / step}}) + "\\n")
        time.sleep(0.02)
    done.write_text(str(step))
    print("checkpoint", step)
    sys.exit(stop.exit_code)
'''
ROOT = Path(__file__).parents[3]


def _eventually(condition: Callable[[], object], what: str) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, f"this did not come: {what}"
        time.sleep(0.02)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object], str], None]:
    """`eventually(condition, what)`: waits until it holds."""
    return _eventually


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "counting.py"
    path.write_text(RUN.format(root=str(ROOT)))
    return path


@pytest.fixture
def command(run_file: Path):
    """`command(output, steps)`: the line that starts the practice run."""
    return lambda output, steps=100_000: [sys.executable, str(run_file), str(output), str(steps)]


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path):
    """Ends what a test has left running: the processes that its records name, and no other."""
    yield
    for path in tmp_path.rglob("run.json"):
        record = None
        with contextlib.suppress(RunError):  # broken by the test
            record = RunRecord.read(path.parent)
        if record is not None:
            for process in (record.process, record.supervisor, *record.stale()):
                if process is not None and process.pid != os.getpid():
                    process.send(signal.SIGKILL)
                    process.wait(20)


@pytest.fixture
def stranger(tmp_path: Path):
    """A process that has nothing to do with any run."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as process:
        found = ProcessId.of(process.pid)
        assert found is not None
        yield found
        process.kill()
