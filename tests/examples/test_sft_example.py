"""`make sft`: the whole of fine-tuning in one command, with real processes and a real kill -9."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "sft" / "example.py"


@pytest.mark.slow
def test_the_example_resumes_after_kill_9_to_the_same_bytes_and_is_served_what_it_learnt(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    # Six processes that each compile torch and its kin anew would take minutes.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--out", out],
        cwd=tmp_path,
        env={**kept, "ROLECRAFT_RUNS": str(tmp_path / "index"), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    assert "Killed after step " in done.stdout
    assert "the same adapter, byte for byte" in done.stdout
    assert "  Twelve at a time.\n" in done.stdout
    assert "  只在上午,九点到十二点。\n" in done.stdout
    # It tells of a resume only if there was one: the killed run had not come to its end.
    assert "Training goes on from" in (out / "resumed.log").read_text("utf-8")
    assert not (out / "killed.log").read_text("utf-8").count("Adapter, learning curve")
