"""Attempts that were played elsewhere: by `rolecraft evaluate`, `rollout` or `run`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rolecraft.errors import TraceError, UsageError
from rolecraft.synthesis.difficulty.attempts import (
    Attempt,
    attempt_of,
    digest_of,
    models_of,
    open_attempts,
)
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.tasks import gathered_rows
from rolecraft.trajectories.jsonl import load, trace_files


@dataclass(slots=True)
class Recorded:
    """What was found in records."""

    added: int = 0
    known: int = 0
    """That were there before, in whatever place and by whatever name."""
    stand_ins: int = 0
    """Of those that were added: attempts that count for no pass rate."""
    others: int = 0
    """Records of other tasks, of runs that were not graded, and files that are no records."""


def record_from(folder: SynthesisFolder, path: Path, *, solver: str = "") -> Recorded:
    """Take the attempts at gathered tasks from the records below `path`.

    Each counts once, however often and from wherever it is taken: a record is known by what is in
    it. `solver` is what they are called, the models that they asked unless given. Raises
    `UsageError` where there are no tasks or no attempt at one, `TraceError` for a path that is not
    there.
    """
    tasks = {str(row["instance_id"]) for row in gathered_rows(folder)}
    found = Recorded()
    with open_attempts(folder) as ledger:
        there = {each.record for each in ledger}
        for attempt in _attempts(path, tasks, solver):
            if attempt is None:
                found.others += 1
            elif attempt.record in there:
                found.known += 1
            else:
                ledger.append(attempt)
                there.add(attempt.record)
                found.added += 1
                found.stand_ins += attempt.stand_in
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
        models = ", ".join(sorted(models_of(played))) or "nobody"
        yield attempt_of(played, str(name), solver or models, 0, record=digest_of(file))
