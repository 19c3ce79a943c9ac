"""What an output folder says of its run, and what can be seen of that run now."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from rolecraft.errors import RolecraftError
from rolecraft.training.background._supervisor import RECORD, in_words, write_json
from rolecraft.training.background.process import ProcessId, left_behind
from rolecraft.training.background.stop_signals import STOPPED

State = Literal["running", "finished", "stopped", "failed", "killed", "stale", "unknown", "gone"]
"""How it stands with a run.

running: its process is there. finished: it ended with 0. stopped: it was told to and ended as it
should, and can go on. failed: it ended with another exit code. killed: a signal ended it, or it is
gone and left no word. stale: it is gone, and processes that it started are still there. unknown:
it is another machine's. gone: its output folder is not there any more.
"""
WAY_ON = ("--resume",)
"""By which most commands go on with the run in their output folder."""
_TAIL_BYTES = 65_536


class RunError(RolecraftError):
    """Something that cannot be done with a run, or with its output folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended."""

    at: str
    """In UTC."""
    exit_code: int
    """Negative for the number of the signal that killed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """`run.json` of an output folder: the last run there."""

    output: Path
    command: tuple[str, ...]
    folder: str
    """In which it was started."""
    started: str
    """In UTC."""
    mark: str
    """Unlike that of any other run, also of one in the same folder."""
    log: Path | None = None
    """None for one that was not started in the background."""
    process: ProcessId | None = None
    supervisor: ProcessId | None = None
    """The process that stands over one in the background."""
    ended: Ended | None = None
    way_on: tuple[str, ...] = WAY_ON
    """What is added to the command to go on with the run."""

    @classmethod
    def read(cls, output: Path) -> Self | None:
        """None if nothing is known of a run there. Raises `RunError` for a file that is broken."""
        path = output / RECORD
        try:
            found = json.loads(path.read_text("utf-8"))
            return cls._from_dict(found, output)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunError(
                f"`{path}` cannot be read: {error!r}. If no run is under way there, delete it."
            ) from error

    @classmethod
    def _from_dict(cls, found: dict[str, Any], output: Path) -> Self:
        def process(name: str) -> ProcessId | None:
            return ProcessId.from_dict(found[name]) if found.get(name) else None

        return cls(
            output=output,
            command=tuple(map(str, found["command"])),
            folder=str(found["folder"]),
            started=str(found["started"]),
            mark=str(found["mark"]),
            log=output / found["log"] if found.get("log") else None,  # the folder may have moved
            process=process("process"),
            supervisor=process("supervisor"),
            ended=Ended(**found["ended"]) if found.get("ended") else None,
            way_on=tuple(map(str, found.get("way_on", WAY_ON))),
        )

    def to_dict(self) -> dict[str, Any]:
        """As in `run.json`."""

        def fields(process: ProcessId | None) -> dict[str, Any] | None:
            return None if process is None else asdict(process)

        return {
            "output": str(self.output),
            "command": list(self.command),
            "folder": self.folder,
            "started": self.started,
            "mark": self.mark,
            "log": None if self.log is None else str(self.log.relative_to(self.output)),
            "process": fields(self.process),
            "supervisor": fields(self.supervisor),
            "ended": None if self.ended is None else asdict(self.ended),
            "way_on": list(self.way_on),
        }

    def write(self) -> None:
        """Raises `OSError`."""
        write_json(self.output / RECORD, self.to_dict())

    @property
    def alive(self) -> bool:
        """Whether it is under way, or is just being started."""
        if self.ended is not None:
            return False
        # A supervisor that lives is about to start the process, or to write down how it ended.
        processes = (self.process, self.supervisor)
        return any(process is not None and process.alive for process in processes)

    def stale(self) -> list[ProcessId]:
        """Processes of a run that has ended which are still there."""
        if self.alive or self.supervisor is None:
            return []
        if self.supervisor.elsewhere:
            return []
        return left_behind(self.mark, session=self.supervisor)

    def state(self) -> State:
        """How it stands with it now."""
        if not self.output.is_dir():
            return "gone"
        if self.alive:
            return "running"
        if self.stale():
            return "stale"
        if self.ended is None:
            process = self.process or self.supervisor
            return "unknown" if process is not None and process.elsewhere else "killed"
        if self.ended.exit_code == 0:
            return "finished"
        if self.ended.exit_code in STOPPED:
            return "stopped"
        return "killed" if self.ended.exit_code < 0 else "failed"

    def how_it_ended(self) -> str:
        """In words; empty while it is under way."""
        if self.alive:
            return ""
        if self.ended is None:
            process = self.process or self.supervisor
            if process is not None and process.elsewhere:
                return f"belongs to the machine {process.host!r}, and is not seen from here"
            now = ProcessId.this()
            if process is not None and process.boot != now.boot:
                return "was cut off when the machine restarted"
            return "is gone and left no word: killed, it and what stood over it"
        if self.ended.exit_code in STOPPED:
            return f"was stopped (exit code {self.ended.exit_code})"
        return in_words(self.ended.exit_code)


def progress_of(output: Path) -> dict[str, float]:
    """The last `step` and `loss` (or `reward`) in the folder's log of steps; empty without one.

    Of a run that trains one role after the other, those of the role it is at.
    """
    of_roles = sorted(output.glob("*/log.jsonl"), key=_changed, reverse=True)[:1]
    for path in (output / "log.jsonl", output / "training.jsonl", *of_roles):
        lines = last_lines(path, 200)
        found: dict[str, float] = {}
        for line in reversed(lines):
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if isinstance(row, dict):
                    for key in ("step", "loss", "reward"):
                        if isinstance(row.get(key), (int, float)):
                            found.setdefault(key, row[key])
            if "step" in found and ("loss" in found or "reward" in found):
                break
        if found:
            return found
    return {}


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # deleted since it was listed
        return 0.0


def last_lines(path: Path, number: int) -> list[str]:
    """The end of a text file, of which not more than 64 KiB is read; empty if there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-number:]
    except OSError:
        return []
