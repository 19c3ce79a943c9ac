"""Which of a distributed run's processes this is, before any library has looked."""

from __future__ import annotations

import os


def is_first_process() -> bool:
    """Whether this process writes what all share; so does one that runs alone.

    Whoever starts several (`rolecraft sft --processes`, accelerate, torchrun) says it to each of
    them in the environment, and there only.
    """
    return os.environ.get("RANK", "0") == "0"


def is_alone() -> bool:
    """Whether the run is this process alone."""
    return os.environ.get("WORLD_SIZE", "1") == "1"


def local_rank() -> int:
    """The number of this process among those on its machine, which is that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))
