"""A training that is killed at any moment goes on to the same weights: a real process, kill -9."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from rolecraft.training.rl.records import CURVE, TASKS

pytestmark = pytest.mark.slow

STEPS = 8


def command(out: Path, *more: object) -> list[str]:
    words = ["--steps", STEPS, "--tasks-per-step", 4, "--checkpoint-steps", 2, "--seed", 3, *more]
    return [sys.executable, "-m", "rolecraft.cli", "train", *map(str, words), "--json"]


def curve(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / CURVE).read_text("utf-8").splitlines()]
    return [{k: v for k, v in line.items() if k not in ("cost", "cpu_seconds")} for line in lines]


def test_killed_at_random_moments_a_training_goes_on_to_the_same_curve_and_weights(
    tmp_path: Path,
) -> None:
    """Thrice: within a step, at its end, while a checkpoint is written, wherever it falls."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run(
        command(whole, "relay", "--out", whole), check=True, capture_output=True, timeout=600
    )
    draw = random.Random(16)
    words: list[object] = ["relay", "--out", cut]
    for kill in range(3):
        with subprocess.Popen(
            command(cut, *words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as running:
            assert running.stdout is not None
            for _ in range(2):  # two further steps are over, and the next is under way
                assert running.stdout.readline(), f"it ended before kill {kill}"
            time.sleep(draw.uniform(0.0, 0.3))  # any moment will do: nothing waits for this
            running.kill()
        words = ["--resume", cut]
    kept = tmp_path / "kept"
    shutil.copytree(cut, kept)  # to look at when this fails
    subprocess.run(command(cut, *words), check=True, capture_output=True, timeout=600)
    assert curve(whole) == curve(cut)
    assert (whole / TASKS).read_text() == (cut / TASKS).read_text()
    ours, theirs = (load_file(out / "model.safetensors") for out in (whole, cut))
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)
