"""What fine-tuning settings are estimated to take, and what an error then proposes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rolecraft.training.sft.loading import Device
from rolecraft.training.sft.memory_plan import next_smaller, plan_memory, step_of
from rolecraft.training.sft.settings import SFTSettings

HERE = Device("cpu", bf16=False, attention="sdpa")
THERE = Device("cuda", bf16=True, attention="flash_attention_2")


def made(base: Path, **more: Any) -> SFTSettings:
    return SFTSettings(model=str(base), data=("data.jsonl",), output=Path("out"), **more)


def test_settings_become_the_step_that_the_trainer_will_do(base: Path) -> None:
    here = step_of(made(base), HERE, longest=300)
    assert (here.batch, here.length, here.rank, here.dropout) == (4, 300, 16, 0.05)
    assert (here.weights, here.compute, here.targets) == ("float32", "float32", "all-linear")
    there = step_of(made(base, targets=("q_proj",), packing=True), THERE, rank=64, longest=300)
    assert (there.length, there.rank, there.targets) == (1024, 64, ("q_proj",))
    assert (there.weights, there.compute, there.device) == ("bfloat16", "bfloat16", "cuda")
    full = step_of(made(base, method="full"), THERE)
    assert (full.weights, full.compute) == ("float32", "bfloat16")


def test_a_plan_says_whether_it_fits_and_what_would(base: Path) -> None:
    settings = made(base, gradient_checkpointing=False)
    asked = plan_memory(settings, base, HERE)
    assert asked.fits
    assert asked.free > asked.wanted.total
    tight = plan_memory(settings, base, HERE, free=asked.wanted.total * 2 // 3)
    assert tight.flags.startswith("--batch 2 --accumulate 8")
    assert next_smaller(settings, base, HERE) == "--batch 2 --accumulate 8"
    least = replace(settings, batch=1, gradient_checkpointing=True, max_length=256)
    assert next_smaller(least, base, HERE) == ""
