"""What `demo` and `train` share: threads, and training steps in words and as records."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolecraft.training import StepRecord


def use_threads(number: int) -> None:
    """How many threads torch computes with. Models of this size are slower with more than one."""
    from rolecraft.models._torch import torch

    torch.set_num_threads(number)


def step_record(record: StepRecord) -> dict[str, Any]:
    """One JSON line of the learning curve."""
    return asdict(record)


def step_words(record: StepRecord) -> str:
    """A step in a few words, for a progress bar."""
    return f"reward {record.reward:.2f}, {record.cpu_seconds:.0f} CPU-seconds"
