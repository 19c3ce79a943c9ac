"""Tasks worth training on, by how often they were solved in runs that are on disk.

Tasks that nobody solves and tasks that everybody solves teach nothing. SkyRL's published runs were
trained on subsets that were chosen by a model's success in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.rollouts.endings import OF_NOBODY

RESULTS = "results.jsonl"


def pass_rates(folders: Iterable[str | Path], *, solved: float = 1.0) -> dict[str, float]:
    """For each task of these folders the share of its attempts with a reward of at least `solved`.

    Folders are those that `rolecraft rollout` writes; folders of such are read too. Attempts that
    the surroundings failed say nothing and are left out. Raises `UsageError` for a folder without
    results.
    """
    tried: dict[str, int] = {}
    passed: dict[str, int] = {}
    for folder in map(Path, folders):
        files = [folder] if folder.is_file() else sorted(folder.rglob(RESULTS))
        if not files:
            raise UsageError(
                f"`{folder}` has no `{RESULTS}`: name a folder that `rolecraft rollout` wrote."
            )
        for file in files:
            # A last line without an end was cut off by a kill.
            for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], start=1):
                try:
                    row = json.loads(line)
                    task, ended, reward = row["task"], row["ended"], row["reward"]
                except (ValueError, TypeError, KeyError) as error:
                    raise UsageError(f"`{file}`, line {number}, is no result: {error}.") from error
                if ended in OF_NOBODY:
                    continue
                tried[task] = tried.get(task, 0) + 1
                passed[task] = passed.get(task, 0) + (reward is not None and reward >= solved)
    return {task: passed[task] / count for task, count in tried.items()}


def subset(rates: Mapping[str, float], *, low: float, high: float) -> list[str]:
    """The ids of the tasks whose pass rate is in [low, high], sorted.

    Raises `UsageError` for bounds that are none, and where no task is left.
    """
    if not 0 <= low <= high <= 1:
        raise UsageError(f"Bounds of a pass rate are 0 <= low <= high <= 1, got {low!r}, {high!r}.")
    kept = sorted(task for task, rate in rates.items() if low <= rate <= high)
    if not kept:
        found = f"from {min(rates.values()):.2f} to {max(rates.values()):.2f}" if rates else "none"
        raise UsageError(
            f"No task has a pass rate from {low:g} to {high:g}; those of {len(rates)} tasks are "
            f"{found}. Widen the bounds, or record more attempts at each task."
        )
    return kept
