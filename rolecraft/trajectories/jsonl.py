"""Trajectories as JSONL files: read, stream, save, list. The format is that of the journal."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from rolecraft.errors import JournalError, TraceError, UsageError
from rolecraft.trajectories.append_file import lock, sync_folder
from rolecraft.trajectories.codec import decode_header, encode_event, encode_line, encode_signal
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.findings import FINDINGS_SUFFIX
from rolecraft.trajectories.reader import Reader
from rolecraft.trajectories.reported import (
    REWARDS_SUFFIX,
    SIGNALS_SUFFIX,
    load_signals,
    signals_path,
)
from rolecraft.trajectories.timings import TIMINGS_SUFFIX, load_timings
from rolecraft.trajectories.trajectory import Trajectory
from rolecraft.trajectories.whole_file import write_whole

BESIDE = (FINDINGS_SUFFIX, TIMINGS_SUFFIX, SIGNALS_SUFFIX, REWARDS_SUFFIX)
"""Endings of files that are kept beside journals and are none."""


def load(path: Path | str) -> Trajectory:
    """Read one trajectory, with the signals that were reported later and stand beside it.

    Lines that cannot be read are listed in its `problems`.

    Raises `TraceError` if the file is missing, empty, of a newer version, or has not one good line.
    """
    reader = Reader(path)
    events = list(reader.events())
    reader.check_readable()
    if any(first.seq > second.seq for first, second in pairwise(events)):
        events.sort(key=lambda event: event.seq)
    name, about = decode_header(reader.header) if reader.header else (Path(path).stem, {})
    problems = [*reader.problems, *([reader.torn] if reader.torn else [])]
    timings = load_timings(path, problems=problems)
    reported = load_signals(path, problems=problems)
    return Trajectory(name, about, events, problems, timings, reported)


def read_events(path: Path | str, *, problems: list[str] | None = None) -> Iterator[Event]:
    """The events of a file one by one, in the order of the file, with constant memory.

    Broken lines are added to `problems`; without such a list the first one raises `TraceError`,
    as does a file that `load` would not read.
    """
    reader = Reader(path)
    known = 0
    for event in reader.events():
        known = _report(reader, known, problems)
        yield event
    reader.check_readable()
    if reader.torn:
        reader.problems.append(reader.torn)
    _report(reader, known, problems)


def _report(reader: Reader, known: int, problems: list[str] | None) -> int:
    new = reader.problems[known:]
    if new and problems is None:
        reason = new[0].removeprefix(f"{reader.path}:")
        raise TraceError(reader.path, f"line {reason}. Pass `problems=[]` to read on regardless.")
    if problems is not None:
        problems.extend(new)
    return known + len(new)


def save(trajectory: Trajectory, path: Path | str, *, fsync: bool = False) -> Path:
    """Write a trajectory to a file, or under a free name into a folder; returns the file's path.

    A folder exists already or is written with a slash at its end: `save(run, "runs/")` makes
    `runs/<id>.jsonl`, then `runs/<id>-2.jsonl`. A file is replaced whole or not at all; nobody
    ever sees half of it. Signals that were reported later are written beside it. Raises
    `JournalError` if the disk refuses or a running journal writes that file, `UsageError` for
    events without increasing `seq`.
    """
    _check_order(trajectory)
    target = Path(path)
    folder = str(path).endswith(("/", os.sep)) or target.is_dir()
    home = target if folder else target.parent
    temporary = home / f".{os.getpid()}-{id(trajectory):x}.tmp"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(encode_line(trajectory.header()))
            file.writelines(map(encode_event, trajectory.events))
            if fsync:
                file.flush()
                os.fsync(file.fileno())
        if folder:
            target = _take_free_name(temporary, home, readable_name(trajectory.id))
        else:
            _refuse_running_journal(target)
            os.replace(temporary, target)
        if trajectory.reported:
            lines = b"".join(map(encode_signal, trajectory.reported))
            write_whole(signals_path(target), lines)
        if fsync:
            sync_folder(home)
    except OSError as error:
        raise JournalError(target, f"cannot be saved: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return target


def trace_files(path: Path | str, *, suffixes: Sequence[str] = (".jsonl",)) -> list[Path]:
    """The file itself, or the files with these endings in a folder and the folders in it.

    In the order that a person would count them (`run-2` before `run-10`). Hidden files and those
    that are kept beside journals (`BESIDE`) are left out. Raises `TraceError` if there are none.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TraceError(path, "there is no such file or folder")
    found = [
        file
        for file in path.rglob("*")
        if file.name.endswith(tuple(suffixes))
        and not file.name.endswith(BESIDE)
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and file.is_file()
    ]
    if not found:
        raise TraceError(path, f"no {' or '.join('*' + end for end in suffixes)} file is in it")
    return sorted(found, key=_as_counted)


def readable_name(trajectory: str) -> str:
    """A file name for a trajectory id, without an ending."""
    name = re.sub(r"[^\w.-]+", "-", trajectory).strip("-.")
    return name.encode("utf-8", "ignore")[:100].decode("utf-8", "ignore") or "trajectory"


def _check_order(trajectory: Trajectory) -> None:
    last = -1
    for index, event in enumerate(trajectory.events):
        if event.seq <= last:
            raise UsageError(
                f"`events[{index}]` of trajectory {trajectory.id!r} has seq {event.seq} after "
                f"{last}. Record events with a `Recorder`, which numbers them."
            )
        last = event.seq


def _take_free_name(temporary: Path, folder: Path, name: str) -> Path:
    number = 1
    while True:
        target = folder / (f"{name}.jsonl" if number == 1 else f"{name}-{number}.jsonl")
        number += 1
        if target.exists():
            continue
        try:
            os.link(temporary, target)  # unlike a rename, never replaces what is there
        except FileExistsError:
            continue  # another process took the name just now
        except OSError:  # a file system without links
            os.replace(temporary, target)
        return target


def _refuse_running_journal(target: Path) -> None:
    try:
        file: BinaryIO = target.open("rb")
    except FileNotFoundError:
        return
    with file:
        try:
            lock(file.fileno())
        except BlockingIOError:
            raise JournalError(
                target, "a running journal writes this file. Save under another name."
            ) from None


def _as_counted(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if index % 2 else (-1, part) for index, part in enumerate(parts)]
