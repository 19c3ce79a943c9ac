"""The memory of a fine-tuning as it is set, on the device it will run on."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from rolecraft.training.device_memory import free_memory
from rolecraft.training.memory import Attention, Step
from rolecraft.training.memory_advice import Advice, advise, options, smaller
from rolecraft.training.model_sizes import read_sizes
from rolecraft.training.sft.loading import Device
from rolecraft.training.sft.settings import DROPOUT, RANK, SFTSettings


def plan_memory(
    settings: SFTSettings,
    model: str | Path,
    device: Device,
    *,
    rank: int | None = None,
    longest: int | None = None,
    free: int | None = None,
) -> Advice:
    """What the run takes against what is free, before a weight is loaded.

    `model` is the base's folder, `rank` that of an adapter that is gone on from, `longest` the
    tokens of the longest sample where the data is known (none is longer than `max_length`), `free`
    the bytes there are (default: asked of the device). Raises `ModelError` for a folder whose
    sizes cannot be read.
    """
    step = step_of(settings, device, rank=rank, longest=longest)
    free = free_memory(device.name) if free is None else free
    return advise(read_sizes(model), step, free)


def next_smaller(settings: SFTSettings, model: str | Path, device: Device) -> str:
    """The options of the next smaller setting, for an error; empty if there is none."""
    step = step_of(settings, device)
    other = smaller(read_sizes(model), step)
    return "" if other is None else options(step, other)


def step_of(
    settings: SFTSettings,
    device: Device,
    *,
    rank: int | None = None,
    longest: int | None = None,
) -> Step:
    """The settings in the words of the estimate; see `load_model` for the number formats."""
    length = settings.max_length
    if longest is not None and not settings.packing:
        length = max(1, min(longest, length))
    half = device.bf16 and settings.method != "full"
    return Step(
        batch=settings.batch,
        length=length,
        accumulate=settings.accumulate,
        method=settings.method,
        rank=settings.rank or rank or RANK,
        targets="all-linear" if settings.targets in (None, ("all-linear",)) else settings.targets,
        dropout=DROPOUT if settings.dropout is None else settings.dropout,
        weights="bfloat16" if half else "float32",
        compute="bfloat16" if device.bf16 else "float32",
        gradient_checkpointing=settings.gradient_checkpointing,
        attention=cast(Attention, device.attention),
        packed=settings.packing,
        device="cuda" if device.name.startswith("cuda") else "cpu",
    )
