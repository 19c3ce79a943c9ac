"""Stored runs as people are asked about them, and as a file of answers names them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._output import Output
from rolecraft.errors import TraceError, UsageError
from rolecraft.trajectories.in_words import one_line

if TYPE_CHECKING:
    from rolecraft.rewards.learned import Label, Observation
    from rolecraft.trajectories import Trajectory

_EXCERPT = 400
"""Characters of what a run said last."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run of a file: its numbers, and what a person reads of it."""

    seen: Observation
    task: str
    said: str


def stored_runs(paths: Sequence[Path], goal: str | None, output: Output) -> dict[str, StoredRun]:
    """The runs of files and folders, by the path of each; what is no run is named and passed over.

    Raises `TraceError` for a path that has nothing to read, and `UsageError` where no run is left.
    """
    from rolecraft.rewards.learned import FEATURES, observe
    from rolecraft.trajectories import load, trace_files

    found: dict[str, StoredRun] = {}
    for path in paths:
        for file in trace_files(path):
            try:
                run = load(file)
            except TraceError as error:
                if file == path:
                    raise
                output.warn(f"Passed over: {error}")
                continue
            for problem in run.problems:
                output.warn(problem)
            seen = observe(run, goal=goal, name=str(file))
            if any(name not in FEATURES for name in seen.values):
                found[str(file)] = StoredRun(seen, _task(run), _last_words(run))
            else:
                output.warn(f"Passed over: `{file}` has no signals, so there is nothing to weigh.")
    if paths and not found:
        raise UsageError("None of these is a run with signals: there is nothing to ask about.")
    return found


def _task(run: Trajectory) -> str:
    from rolecraft.failure_taxonomy.goals import task_of

    return one_line(task_of(run.about), _EXCERPT)


def _last_words(run: Trajectory) -> str:
    said = [event for event in run.of("message") if event.content.strip()]
    if not said:
        return ""
    return f"{said[-1].role or 'somebody'}: {one_line(said[-1].content, _EXCERPT)}"


def figures(question: Sequence[Observation]) -> list[list[str]]:
    """The numbers of one or two runs side by side; of the features those that tell them apart."""
    from rolecraft.rewards.learned import FEATURES

    names = {name for each in question for name in each.values}
    rows = []
    for name in sorted(names, key=lambda name: (name in FEATURES, name)):
        row = [_figure(each.values.get(name), name in FEATURES) for each in question]
        if name not in FEATURES or len({"0", *row} if len(row) == 1 else set(row)) > 1:
            rows.append([name, *row])
    return rows


def _figure(value: float | None, counts: bool) -> str:
    if value is None:
        return "not measured"
    return f"{round(math.expm1(value)):,}" if counts else f"{value:g}"


# --- answers in a file -----------------------------------------------------------------------


def answers_in(source: Path, runs: dict[str, StoredRun], by: str) -> list[Label]:
    """The answers of a JSONL file (`-`: of stdin), all of them or none.

    A line is one of `feedback.jsonl`, or names runs of `runs` by their paths: `{"a": …, "b": …,
    "answer": …}` or `{"run": …, "satisfaction": …}`. Raises `CommandLineError` with the line.
    """
    from rolecraft.trajectories.codec import parse_line

    try:
        data = sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()
    except OSError as error:
        raise CommandLineError(f"`{source}` cannot be read: {error.strerror}.") from error
    labels = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            labels.append(_answer(parse_line(line), runs, by))
        except (ValueError, TypeError, KeyError, UsageError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise CommandLineError(
                f"`{source}`, line {number}: {reason.rstrip('.')}. Nothing was kept."
            ) from error
    return labels


def _answer(record: dict[str, Any], runs: dict[str, StoredRun], by: str) -> Label:
    from rolecraft.rewards.learned import Preference, Rating
    from rolecraft.rewards.learned.feedback import label_of

    if "kind" in record:
        return label_of(record)
    by = str(record.get("by", by))
    if "satisfaction" in record:
        return Rating(_run(record["run"], runs), record["satisfaction"], by)
    return Preference(_run(record["a"], runs), _run(record["b"], runs), record["answer"], by)


def _run(name: str, runs: dict[str, StoredRun]) -> Observation:
    found = runs.get(str(Path(name)))
    if found is None:
        given = (
            f"none of the {len(runs)} runs that were given" if runs else "unknown: name its runs"
        )
        raise ValueError(f"{name!r} is {given}, as in `rolecraft feedback RUNS --import FILE`")
    return found.seen
