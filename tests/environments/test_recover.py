"""A run that was cut off goes on to the same end, whatever moment it was cut off at."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_team.py")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def check(home: Path, step: int) -> int:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(home), str(step)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, *reports = map(json.loads, done.stdout.splitlines())
    reference = home / "reference"
    journal = (reference / "run.jsonl").read_bytes()
    effects, calls = Counter(lines(reference / "effects")), Counter(lines(reference / "calls"))
    assert max(effects.values()) == 1
    for report in reports:
        where = f"killed {report['how']} write {report['write']}: {done.stderr}"
        folder = Path(report["folder"])
        assert report["status"] == 0, where
        assert (folder / "run.jsonl").read_bytes() == journal, where
        assert not (folder / "run.jsonl.pending").exists(), where
        # Three kills, three roles: what was under way at each may have been done again.
        again = Counter(lines(folder / "effects"))
        assert again.keys() == effects.keys(), where
        assert sum(again.values()) - len(again) <= 3 * 3, where
        asked = Counter(lines(folder / "calls"))
        assert asked.keys() == calls.keys(), where
    return len(reports)


def test_a_run_killed_at_some_writes_and_recovered_leaves_the_same_record(tmp_path: Path) -> None:
    assert check(tmp_path, step=19) > 4


@pytest.mark.slow
def test_a_run_killed_at_every_write_and_recovered_leaves_the_same_record(tmp_path: Path) -> None:
    """Before, in the middle of and after each write, with the recovery killed twice as well."""
    assert check(tmp_path, step=1) > 100
