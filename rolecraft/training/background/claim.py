"""One run at a time in an output folder.

The claim is a lock that the system gives back when its process ends, in whatever way: after kill -9
the next run takes over, and no file has to be deleted by hand.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rolecraft.errors import RolecraftError
from rolecraft.training.background._supervisor import now
from rolecraft.training.background.index import add_to_index
from rolecraft.training.background.process import ProcessId
from rolecraft.training.background.record import WAY_ON, Ended, RunError, RunRecord
from rolecraft.trajectories.append_file import lock

LOCK = "run.lock"
_LOOK_EVERY = 0.05
_held: set[int] = set()


def _let_go_in_child() -> None:
    """A forked worker must not keep the folder when the run itself is gone."""
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)  # the parent's own descriptor keeps the lock
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


class OutputClaimed(RunError):
    """Another run works in the output folder.

    Attributes: `output`, `pid` (None if it is not known), `since` (UTC, may be empty), `log` (None
    for one in the foreground).
    """

    def __init__(self, output: Path, pid: int | None, since: str, log: Path | None) -> None:
        self.output, self.pid, self.since, self.log = output, pid, since, log
        who = f"process {pid}" if pid else "another process"
        begun = f", since {since}" if since else ""
        where = f"; its log is `{log}`" if log else ""
        super().__init__(
            f"A run is under way in `{output}` already ({who}{begun}{where}). Stop it first: "
            f"rolecraft runs stop {output}; or name another folder."
        )


@contextlib.contextmanager
def claim(
    output: Path,
    *,
    index: Path | None = None,
    command: Sequence[str] | None = None,
    way_on: Sequence[str] = WAY_ON,
) -> Iterator[None]:
    """Have an output folder for this process alone, for as long as the block lasts.

    Makes the folder if it is not there. Of a run's processes the one that starts the others claims.
    A run in the foreground is written down as one in the background is, in `run.json` and in the
    `index` of runs if one is given, so that `rolecraft runs` knows it; `command` is what would
    start it again, by default this process's own command line, and `way_on` what is added to it to
    go on.

    Raises `OutputClaimed`, or `RunError` if the folder cannot be written to.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        output = output.resolve()
        descriptor = os.open(output / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unwritable(output, error) from error
    try:
        _lock(descriptor, output)
        _held.add(descriptor)
        try:
            record = _write_down(descriptor, output, command, way_on)
        except OSError as error:
            raise _unwritable(output, error) from error
        if index is not None:
            add_to_index(index, output)
        code = 1
        try:
            yield
            code = 0
        except BaseException as error:
            code = _exit_code(error)
            raise
        finally:
            _note_end(record, code)
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _unwritable(output: Path, error: OSError) -> RunError:
    return RunError(f"`{output}` cannot be written to: {error.strerror or error}.")


def claimant(output: Path) -> OutputClaimed | None:
    """Who has the folder, as the error that a second run gets; None if nobody has."""
    try:
        descriptor = os.open(output / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        lock(descriptor)
    except BlockingIOError:
        return _claimed(descriptor, output)
    finally:
        os.close(descriptor)
    return None


def wait_for_claim(output: Path, *, seconds: float = 60.0) -> None:
    """Wait until a run is under way in a folder: for a worker whose first process claims it.

    Asks for no lock, which could take it from that process. Raises `RunError` after so many
    `seconds`.
    """
    until = time.monotonic() + seconds
    while True:
        record = None
        with contextlib.suppress(RunError):  # of a run that is over
            record = RunRecord.read(output)
        if record is not None and record.alive:
            return
        if time.monotonic() > until:
            raise RunError(
                f"The first process of this run has not claimed `{output}` within {seconds:g} s. "
                f"Look at what it says."
            )
        time.sleep(_LOOK_EVERY)


def _lock(descriptor: int, output: Path) -> None:
    # Somebody who only looks whether the folder is free has it for a moment.
    for attempt in range(5):
        try:
            lock(descriptor)
            return
        except BlockingIOError:
            time.sleep(0.02 * attempt)
    raise _claimed(descriptor, output)


def _claimed(descriptor: int, output: Path) -> OutputClaimed:
    """The error, from what the one that has the lock wrote into it."""
    try:
        found: dict[str, Any] = json.loads(os.pread(descriptor, 65_536, 0))
        log = output / found["log"] if found.get("log") else None
        return OutputClaimed(output, int(found["pid"]), str(found["since"]), log)
    except (OSError, ValueError, KeyError, TypeError):  # it has just been taken
        return OutputClaimed(output, None, "", None)


def _write_down(
    descriptor: int, output: Path, command: Sequence[str] | None, way_on: Sequence[str]
) -> RunRecord | None:
    """Say who has the folder. The run's record, if this process has to keep it."""
    me = ProcessId.this()
    try:
        record = RunRecord.read(output)
    except RunError:
        record = None  # of a run that is over: the lock is ours
    over = record and record.supervisor
    supervised = over is not None and over == ProcessId.of(os.getppid())
    if record is None or not supervised:
        record = RunRecord(
            output=output,
            command=tuple(command or (sys.executable, *sys.orig_argv[1:])),
            folder=os.getcwd(),
            started=now(),
            mark=uuid.uuid4().hex,
            process=me,
            way_on=tuple(way_on),
        )
        record.write()
    log = None if record.log is None else str(record.log.relative_to(output))
    who = {"pid": me.pid, "since": record.started, "log": log}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(who).encode(), 0)
    return None if supervised else record


def _note_end(record: RunRecord | None, code: int) -> None:
    if record is not None:
        # A disk that is full must not hide how the run itself ended.
        with contextlib.suppress(OSError):
            replace(record, ended=Ended(at=now(), exit_code=code)).write()


def _exit_code(error: BaseException) -> int:
    """With which code the process will end, as far as can be told."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    code = getattr(error, "exit_code", None)  # of the command line's own `Exit`
    if isinstance(error, SystemExit):
        code = error.code if error.code is not None else 0
    return code if isinstance(code, int) and not isinstance(error, RolecraftError) else 1
