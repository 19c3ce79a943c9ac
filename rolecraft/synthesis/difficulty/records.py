"""Attempts that were played elsewhere: by `rolecraft evaluate`, `rollout` or `run`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rolecraft.errors import TraceError, UsageError
from rolecraft.synthesis.difficulty.attempts import Attempt, attempt_of, open_attempts
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.tasks import gathered_rows
from rolecraft.trajectories.jsonl import load, trace_files
from rolecraft.trajectories.trajectory import Trajectory

_REPETITION = re.compile(r"r(\d+)\.jsonl")


@dataclass(slots=True)
class Recorded:
    """What was found in records."""

    added: int = 0
    known: int = 0
    """That were there before."""
    others: int = 0
    """Records of other tasks, of runs that were not graded, and files that are no records."""


def record_from(folder: SynthesisFolder, path: Path, *, solver: str = "") -> Recorded:
    """Take the attempts at gathered tasks from the records below `path`; each counts once.

    `solver` is what they are called, the models that they asked unless given. Raises `UsageError`
    where there are no tasks or no attempt at one, `TraceError` for a path that is not there.
    """
    tasks = {str(row["instance_id"]) for row in gathered_rows(folder)}
    found = Recorded()
    with open_attempts(folder) as ledger:
        for attempt in _attempts(path, tasks, solver):
            if attempt is None:
                found.others += 1
            elif attempt.key in ledger:
                found.known += 1
            else:
                ledger.append(attempt)
                found.added += 1
    if not found.added and not found.known:
        raise UsageError(
            f"`{path}` has no record of an attempt at one of the {len(tasks)} tasks of "
            f"`{folder.path}`: name a folder of `rolecraft evaluate`, `rollout` or `run`."
        )
    return found


def _attempts(path: Path, tasks: set[str], solver: str) -> Iterator[Attempt | None]:
    for file in trace_files(path):
        try:
            played = load(file)
        except TraceError:  # results and plans lie beside the records
            yield None
            continue
        task = played.about.get("task")
        name = task.get("id") if isinstance(task, dict) else None
        if name not in tasks or not played.stop_reason:
            yield None
            continue
        number = int(found[1]) if (found := _REPETITION.fullmatch(file.name)) else 1
        below = file.relative_to(path) if path.is_dir() else Path()
        source = str(Path(path.resolve().name) / below)
        yield attempt_of(played, str(name), solver or _models(played), number, source=source)


def _models(played: Trajectory) -> str:
    """Whom its roles asked."""
    names = {str(event.data.get("model") or "") for event in played.of("model_call")}
    return ", ".join(sorted(names - {""})) or "nobody"
