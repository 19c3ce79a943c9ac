"""Runs that outlive the terminal: started in the background, stopped, and started again."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.training.background import _supervisor
from rolecraft.training.background.claim import OutputClaimed, claimant
from rolecraft.training.background.index import add_to_index
from rolecraft.training.background.record import WAY_ON, Ended, RunError, RunRecord, last_lines
from rolecraft.trajectories.append_file import lock

LOGS = "logs"
QUOTED_LINES = 15
"""So many lines of the log's end are quoted for a run that died at once."""
_STARTS_WITHIN = 60.0
"""Seconds for the supervisor, a Python without packages, to start a process."""
_LOOK_EVERY = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundRun:
    """A run that was started and goes on by itself."""

    output: Path
    pid: int
    log: Path

    def __str__(self) -> str:
        """What to say to the person who started it."""
        folder = shlex.quote(str(self.output))
        return (
            f"Started process {self.pid} in the background.\n"
            f"  log:    {self.log}\n"
            f"  follow: rolecraft runs logs -f {folder}\n"
            f"  stop:   rolecraft runs stop {folder}"
        )


class DiedAtOnce(RunError):
    """A run in the background ended while it was looked at.

    Attributes: `log`, `ended` (how), `what` (the same in words), `tail` (the last lines of its
    log).
    """

    def __init__(self, log: Path, ended: Ended) -> None:
        self.log, self.ended = log, ended
        self.what = f"The run {_supervisor.in_words(ended.exit_code)} right after its start."
        self.tail = last_lines(log, QUOTED_LINES)
        super().__init__("\n".join([f"{self.what} Its log `{log}` ends:", *self.tail]))


def start_in_background(
    argv: Sequence[str],
    output: Path,
    *,
    index: Path | None = None,
    watch_seconds: float = 1.0,
    way_on: Sequence[str] = WAY_ON,
) -> BackgroundRun:
    """Start a program as a run that needs no terminal and nobody who waits for it.

    It gets a session of its own, nothing on standard input, and a log with the time in its name in
    `output/logs`. `output/run.json` is its PID file: process, when it began, command and working
    folder, and in the end how it ended. `index` is the folder in which it is noted, `way_on` what
    is added to the program's arguments to go on with the run.

    Raises `OutputClaimed` if a run is under way there, `DiedAtOnce` if it ends with another code
    than 0 within `watch_seconds`, `RunError` if the folder cannot be written to.
    """
    if sys.platform == "win32":
        raise UsageError("Runs in the background want a POSIX system. Start it in the foreground.")
    if not argv:
        raise UsageError("There is no command to start.")
    try:
        (output / LOGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"`{output}` cannot be written to: {error.strerror or error}.") from error
    output = output.resolve()
    with _starting(output):
        refuse_second(output)
        started, log = _started(output, argv, way_on)
        if index is not None:
            add_to_index(index, output)
        record = _watch(started, watch_seconds)
    assert record.process is not None or record.ended is not None
    if record.ended is not None and record.ended.exit_code != 0:
        raise DiedAtOnce(log, record.ended)
    return BackgroundRun(output=output, pid=record.process.pid if record.process else 0, log=log)


def refuse_second(output: Path) -> None:
    """Raise `OutputClaimed` if a run is under way in the folder, in whatever way it was started."""
    record = RunRecord.read(output)
    if record is not None and record.alive:
        process = record.process or record.supervisor
        assert process is not None
        raise OutputClaimed(output, process.pid, record.started, record.log)
    if (taken := claimant(output)) is not None:
        raise taken


def resume(
    record: RunRecord, *, index: Path | None = None, watch_seconds: float = 1.0
) -> BackgroundRun:
    """Start a run's command again, in the folder it was started in, with its `way_on`.

    Raises as `start_in_background` does, and `RunError` if the working folder has gone.
    """
    refuse_second(record.output)
    if not Path(record.folder).is_dir():
        raise RunError(
            f"The run was started in the folder `{record.folder}`, which is not there any more."
        )
    command = list(record.command)
    if record.way_on[0] not in command:
        command += record.way_on
    with _working_in(record.folder):
        return start_in_background(
            command,
            record.output,
            index=index,
            watch_seconds=watch_seconds,
            way_on=record.way_on,
        )


def stop(record: RunRecord, *, wait_seconds: float, kill: bool = False) -> RunRecord:
    """Tell a run to end (SIGTERM), or with `kill` end it on the spot, and wait until it has.

    The signal goes to the very process that was started, by its number and the time it began.
    Returns the record with how it ended. Raises `RunError` if it is not under way, or is still
    there after `wait_seconds`.
    """
    record = _begun(record)
    process = record.process
    if process is None or not record.alive:
        raise RunError(f"No run is under way in `{record.output}`: it {record.how_it_ended()}.")
    process.send(signal.SIGKILL if kill else signal.SIGTERM)
    if not process.wait(wait_seconds):
        raise RunError(
            f"Process {process.pid} was told to stop and is still there after {wait_seconds:g} s: "
            f"it may be writing a checkpoint. Wait longer with --wait, or end it on the spot, "
            f"without a checkpoint: rolecraft runs stop --kill {record.output}"
        )
    return _settled(record)


def _begun(record: RunRecord) -> RunRecord:
    """The record of a run, with its process if it was just about to get one."""
    until = time.monotonic() + _STARTS_WITHIN
    while record.process is None and record.alive and time.monotonic() < until:
        time.sleep(_LOOK_EVERY)
        record = RunRecord.read(record.output) or record
    return record


def _settled(record: RunRecord) -> RunRecord:
    """The record of a run whose process has ended, once whoever keeps it has written that down."""
    keeper = record.supervisor
    until = time.monotonic() + _STARTS_WITHIN
    while True:
        over = keeper is None or not keeper.alive
        found = RunRecord.read(record.output)  # after the look at its keeper
        if found is None or found.mark != record.mark or found.ended is not None:
            return found or record
        if over or time.monotonic() > until:
            return found
        time.sleep(_LOOK_EVERY)


def _started(output: Path, argv: Sequence[str], way_on: Sequence[str]) -> tuple[RunRecord, Path]:
    """Start the supervisor, and with it the run. Its record as it is now, and its log."""
    mark = uuid.uuid4().hex
    log = _new_log(output / LOGS)
    specification = {
        "output": str(output),
        "command": list(map(str, argv)),
        "folder": os.getcwd(),
        "started": _supervisor.now(),
        "mark": mark,
        "log": str(log.relative_to(output)),
        "way_on": list(way_on),
    }
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _supervisor.__file__, json.dumps(specification)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until = time.monotonic() + _STARTS_WITHIN
    while True:
        ended = process.poll() is not None
        record = RunRecord.read(output)
        if record is not None and record.mark == mark and (record.process or record.ended):
            # Nobody waits for it: it must not be missed when it is thrown away.
            process.returncode = 0 if process.returncode is None else process.returncode
            return record, log
        if ended or time.monotonic() > until:
            tail = "\n".join(last_lines(log, QUOTED_LINES))
            raise RunError(f"The run could not be started. Its log `{log}` ends:\n{tail}")
        time.sleep(_LOOK_EVERY)


def _watch(record: RunRecord, seconds: float) -> RunRecord:
    """Look at a run for so long, or until it ends."""
    if record.process is not None and record.process.wait(seconds):
        return _settled(record)
    return record


def _new_log(folder: Path) -> Path:
    """An empty log with the time in its name, that no other run has."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        path = folder / (f"{stamp}.log" if number == 1 else f"{stamp}-{number}.log")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"`{path}` cannot be written: {error.strerror or error}.") from error
        return path
    raise RunError(f"`{folder}` has a thousand logs of this very second.")


@contextmanager
def _starting(output: Path) -> Iterator[None]:
    """One start at a time in a folder."""
    descriptor = os.open(output / LOGS / ".start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        lock(descriptor)
        yield
    except BlockingIOError:
        raise RunError(f"Another run is just being started in `{output}`.") from None
    finally:
        os.close(descriptor)


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
