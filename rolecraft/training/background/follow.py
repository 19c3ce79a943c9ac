"""The log of a run as it is written, also across a stop and a resume."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterator
from pathlib import Path

from rolecraft.training.background.record import RunRecord
from rolecraft.training.background.start import LOGS

_LOOK_EVERY = 0.2
_CHUNK = 65_536


def logs_of(output: Path) -> list[Path]:
    """All logs of a folder's runs in the background, oldest first."""
    return sorted((output / LOGS).glob("*.log"), key=_order)


def _order(path: Path) -> tuple[str, int]:
    day, _, rest = path.stem.partition("-")
    time_of_day, _, number = rest.partition("-")
    return f"{day}-{time_of_day}", int(number) if number.isdigit() else 1


def read_logs(output: Path) -> Iterator[str]:
    """The text of all logs, oldest first, each after a line with its name."""
    for path in logs_of(output):
        yield f"==> {path} <==\n"
        yield from _text(path)


def follow(output: Path, *, linger_seconds: float) -> Iterator[str]:
    """What the logs say, and what is written into them until the run has ended.

    When it has, a resume is waited for so long: then that one's log goes on.
    """
    told: list[Path] = []
    while True:
        for path in logs_of(output):
            if path not in told:
                told.append(path)
                yield f"==> {path} <==\n"
                yield from _follow_one(path, output)
        if not _new_log_within(linger_seconds, output, told):
            return


def _follow_one(path: Path, output: Path) -> Iterator[str]:
    """The text of one log, until nobody writes it any more."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        file = path.open("rb")
    except FileNotFoundError:  # deleted since it was listed
        return
    with file:
        while True:
            written = _is_written(path, output)  # before it is read: then nothing is missed
            while chunk := file.read(_CHUNK):
                yield decoder.decode(chunk)
            if not written:
                if rest := decoder.decode(b"", final=True):
                    yield rest
                return
            time.sleep(_LOOK_EVERY)


def _is_written(path: Path, output: Path) -> bool:
    record = RunRecord.read(output)
    if record is None or record.log is None or record.log.name != path.name:
        return False
    # The supervisor has the last word.
    return record.alive or (record.supervisor is not None and record.supervisor.alive)


def _new_log_within(seconds: float, output: Path, told: list[Path]) -> bool:
    until = time.monotonic() + seconds
    while True:
        if any(path not in told for path in logs_of(output)):
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_EVERY)


def _text(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
