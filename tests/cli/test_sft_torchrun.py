"""`rolecraft sft` under torchrun: one run in its folder, as under `--processes`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.training.background import claim

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
    rows = [{"data": [f"Q: {number}", f"A: {number % 3}"]} for number in range(8)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def torchrun(folder: Path) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = [
        "--model",
        "tiny",
        "--data",
        "rows.jsonl",
        "--out",
        "out",
        "--rank=4",
        "--eval-share=0",
    ]
    return subprocess.run(
        [*launcher, "-m", "rolecraft.cli", "sft", *words, "--steps=2", "--accumulate=1"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_the_first_process_claims_the_folder_for_all(folder) -> None:
    """Another run there is refused, and the whole is one run in the list, which torchrun began."""
    with claim(folder / "out"):
        refused = torchrun(folder)
    assert refused.returncode != 0
    assert "A run is under way in `" in refused.stderr
    assert not (folder / "out/settings.json").exists()

    done = torchrun(folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "out/summary.json").exists()
    listed = subprocess.run(
        [sys.executable, "-m", "rolecraft.cli", "runs", "list", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (row,) = map(json.loads, listed.stdout.splitlines())
    assert (row["state"], row["step"]) == ("finished", 2)
    assert "torch.distributed.run" in row["command"]
