"""What `demo` and `train` share: threads, training steps in words and as records, and disks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.cli._exits import CommandLineError

if TYPE_CHECKING:
    from rolecraft.training import StepRecord


def use_threads(number: int) -> None:
    """How many threads torch computes with. Models of this size are slower with more than one."""
    from rolecraft.models.torch_extra import torch

    torch.set_num_threads(number)


def step_record(record: StepRecord) -> dict[str, Any]:
    """One JSON line of the learning curve."""
    return record.record()


def step_words(record: StepRecord) -> str:
    """A step in a few words, for a progress bar."""
    return f"reward {record.reward:.2f}, {record.cpu_seconds:.0f} CPU-seconds"


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turns a failure to write to `folder` into one line that says why."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandLineError(
            f"Cannot write to `{folder}`: {reason}. Name another folder with --out."
        ) from error
