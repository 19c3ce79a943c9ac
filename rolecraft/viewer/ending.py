"""How far a run came, and how to go on with it: sentences for the terminal and the page."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from rolecraft.errors import TraceError
from rolecraft.trajectories import Event, Trajectory
from rolecraft.trajectories.append_file import lock
from rolecraft.trajectories.backlog import pending_path, read_pending
from rolecraft.trajectories.in_words import count
from rolecraft.trajectories.runs import ActionRun, Placed, action_runs, places


@dataclass(frozen=True, slots=True)
class Ending:
    """Of a run that is over `sentences` is empty; `word` is its stop reason."""

    word: str
    sentences: tuple[str, ...] = ()
    waiting: tuple[Event, ...] = ()
    """The actions that wait for a person's permission."""
    pending: int = 0
    """Events beside the journal, of a round that was cut off."""


def ending(trajectory: Trajectory, journal: Path | None = None) -> Ending:
    """How a run ended; `journal` is the file that it is in, to look at what lies beside it."""
    stop = trajectory.stop_reason
    if stop == "approval":
        return _waiting(trajectory, journal)
    if stop is not None or any(trajectory.of("stop")):
        return Ending(stop or "the record does not say")
    if trajectory.about.get("format", "rolecraft") != "rolecraft":
        return Ending("the record does not say")  # another tool's log
    if journal is not None and _is_written(journal):
        return Ending("not yet", ("It is still going on: a process writes its journal.",))
    return _cut_off(trajectory, journal)


def _waiting(trajectory: Trajectory, journal: Path | None) -> Ending:
    asked = {str(event.data.get("key")): event for event in trajectory.of("approval")}
    waiting = {k: event for k, event in asked.items() if event.data.get("granted") is None}
    lines = [
        f"Waits for permission: {event.data.get('action', 'an action')} of {event.role}, key {key}"
        for key, event in waiting.items()
    ]
    lines.append(f"Go on with: {_resume(journal)} --approve KEY (or --deny KEY)")
    return Ending("approval", tuple(lines), tuple(waiting.values()))


def _cut_off(trajectory: Trajectory, journal: Path | None) -> Ending:
    placed = [list(places(trajectory.events))]
    text = "It was cut off"
    try:
        beside = read_pending(journal) if journal is not None else []
    except TraceError as error:
        text, beside = f"{error} It was cut off", []
    placed += beside
    kept = sum(map(len, beside))
    if running := _under_way(placed):
        text += f" while {' and '.join(running)} ran"
    lines = [f"{text}."]
    if journal is not None and kept:
        holds = f"holds {count(kept, 'more event')} of the round that was under way"
        lines.append(f"`{pending_path(journal)}` {holds}.")
    python = f"team.recover({str(journal or 'JOURNAL')!r})"
    lines.append(f"Go on with: {_resume(journal)}, or in Python: {python}")
    return Ending("cut off", tuple(lines), pending=kept)


def _under_way(attempts: list[list[Placed]]) -> list[str]:
    """The innermost actions and tools that no attempt at the round has seen the end of."""
    runs: dict[tuple[str, str], ActionRun] = {}
    for attempt in attempts:
        for key, run in action_runs(attempt).items():
            if key not in runs or run.complete:
                runs[key] = run
    unended = {key for key, run in runs.items() if not run.complete}
    around = {(role, path.rpartition(".")[0]) for role, path in unended}
    return [_name(runs[key]) for key in runs if key in unended - around]


def _name(run: ActionRun) -> str:
    data = run.start.data
    return f"{data.get('action') or data.get('tool') or 'an action'} of {run.role}"


def _resume(journal: Path | None) -> str:
    file = shlex.quote(str(journal)) if journal is not None else "JOURNAL"
    return f"rolecraft run FILE.py:NAME --resume {file}"


def _is_written(journal: Path) -> bool:
    """Whether a process has the journal locked."""
    try:
        file = os.open(journal, os.O_RDONLY)
    except OSError:
        return False
    try:
        lock(file)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
