"""Fine-tuning on recorded runs of a team warms a base up: its adapters start above chance.

The commands of docs/sft-warm-up.md, with a teacher that a script plays, which is wrong at times.
"""

from __future__ import annotations

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.models import allow_real_models

pytestmark = pytest.mark.slow

TEACHER = """
import random

draw = random.Random(0)


def teacher(call):
    words = call.messages[-1].content.split()
    right = words[1] if call.role == "planner" else str((int(words[1]) + int(words[3])) % 5)
    return right if draw.random() < 0.8 else draw.choice(call.sampling.choices)
"""


def succeed(cli, *words):
    with allow_real_models():
        shown = cli(*words)
    assert shown.code == ExitCode.OK, shown.err
    return shown


def test_adapters_of_rewarded_runs_start_a_team_above_a_half_where_the_base_guesses(
    cli, tmp_path, monkeypatch
):
    from rolecraft.models.torch_extra import torch
    from rolecraft.scenarios.relay import untrained

    monkeypatch.setenv("ROLECRAFT_RUNS", str(tmp_path / "index"))
    (tmp_path / "teacher.py").write_text(TEACHER)
    base = untrained(seed=1)
    torch.manual_seed(1)
    torch.nn.init.normal_(base.module.lm_head.weight, std=0.25)
    base.save(tmp_path / "base")

    teacher = ("--model", "teacher.py:teacher")
    succeed(cli, "rollout", "relay", *teacher, "--tasks", 400, "--out", "runs")
    succeed(
        cli, "sft", "--model", "base", "--data", "runs", "--min-reward", 1, "--out", "warm",
        "--role", "planner", "--role", "executor", "--batch", 16, "--accumulate", 1, "--epochs", 6,
        "--rate", 3e-3, "--eval-share", 0, "--threads", 1,
    )  # fmt: skip
    shown = succeed(
        cli, "evaluate", "relay", "--model", "transformers:base", "--trained-on", "runs",
        "--adapter", "planner=warm/planner", "--adapter", "executor=warm/executor",
        "--tasks", 100, "--json",
    )  # fmt: skip
    before, after = (row["success"]["value"] for row in shown.lines[0]["rows"])
    assert before < 0.35
    assert after > 0.5
