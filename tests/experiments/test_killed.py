"""`kill -9` in the middle of an experiment costs the calls under way and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from team_of_sums import journals

SCRIPT = Path(__file__).parent / "killed_experiment.py"
CALLS = 12 + 12 + 36


def start(folder: Path, log: Path, last: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, folder, log, str(last)],
        text=True,
        capture_output=True,
        timeout=120,
    )


def finished(folder: Path) -> dict[str, bytes]:
    """The journals whose last event is the end of the run."""
    over = {}
    for name, content in journals(folder).items():
        lines = content.splitlines()
        if lines and content.endswith(b"\n") and json.loads(lines[-1]).get("kind") == "stop":
            over[name] = content
    return over


def test_after_three_kills_the_experiment_is_whole_and_no_finished_run_was_played_again(
    tmp_path: Path,
) -> None:
    folder, log = tmp_path / "runs", tmp_path / "log"
    before: dict[str, bytes] = {}
    for last in (17, 5, 20):
        killed = start(folder, log, last)
        assert killed.returncode == -9, killed.stderr
        now = finished(folder)
        assert before.items() <= now.items()
        before = now
    assert before
    done = start(folder, log, 0)
    assert done.stdout == "True\n", done.stderr
    now = finished(folder)
    assert before.items() <= now.items()
    assert len(now) == 36
    # Three places at most are under way at each kill.
    assert CALLS + 3 <= len(log.read_text().splitlines()) <= CALLS + 3 * 3
