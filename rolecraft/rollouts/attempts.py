"""A task that is played several times: each time with a seed of its own."""

from __future__ import annotations

import zlib
from dataclasses import replace

from rolecraft.environments.task import Task


def attempt_name(task: Task, number: int) -> str:
    """What tells the `number`-th time (from 1) that a task is played from all others."""
    return f"{task.id}-r{number}"


def as_attempt(task: Task, number: int, seed: int) -> Task:
    """The task as it is played for the `number`-th time, from 1: the same each time it is asked.

    It keeps its id; its seed is made from `seed` and its name, and so is every attempt's own.
    """
    return replace(task, seed=zlib.crc32(f"{seed}/{attempt_name(task, number)}".encode()))
