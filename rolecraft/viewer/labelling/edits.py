"""What annotators type, kept as it is typed: one JSON line an edit, never changed afterwards.

Invariant: an edit that was accepted is on the disk before anybody is told so. Lines are only
added, so neither a crash, nor a second tab, nor a second process on the same folder loses one. An
edit that was made on an outdated state is kept too (`lost`), but is not in force until its author
says so.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rolecraft.errors import RolecraftError
from rolecraft.trajectories.append_file import AppendFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One field of one trace gets a value.

    `round` is 1 for the blind round. `rev` is the number of its line in the file, from 1.
    """

    by: str
    trace: str
    field: str
    value: Any
    round: int = 1
    name: str = ""
    """The trace's name when the edit was made; it is found by `trace`, its digest."""
    tab: str = ""
    """The window in which it was typed; `turn` counts that window's edits."""
    turn: int = 0
    at: str = ""
    lost: bool = False
    rev: int = 0

    def line(self) -> bytes:
        row: dict[str, Any] = {
            "at": self.at,
            "by": self.by,
            "trace": self.trace,
            "name": self.name,
            "round": self.round,
            "field": self.field,
            "value": self.value,
        }
        if self.tab:
            row |= {"tab": self.tab, "turn": self.turn}
        if self.lost:
            row["lost"] = True
        return (json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n").encode()


class Conflict(RolecraftError):
    """A field was changed since its author last saw it. Attributes: `now` (the edit in force)."""

    now: Edit

    def __init__(self, field: str, *, at: str, by: str) -> None:
        super().__init__(
            f"`{field}` was changed in the meantime, at {at} by {by!r}. Yours is kept in the "
            "file; say which of the two holds."
        )

    @classmethod
    def of(cls, now: Edit) -> Conflict:
        """The conflict with the edit that is in force."""
        error = cls(now.field, at=now.at, by=now.by)
        error.now = now
        return error


class EditLog:
    """One file of edits. Safe for threads, and for other processes that write the same file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        self._guard = threading.RLock()
        self._read_to = 0
        self._lines = 0
        self._by_trace: dict[str, list[Edit]] = {}
        self._in_force: dict[tuple[str, int, str], Edit] = {}

    def of(self, trace: str) -> list[Edit]:
        """The edits about a trace that are or were in force, oldest first."""
        with self._guard:
            self._catch_up()
            return list(self._by_trace.get(trace, ()))

    def traces(self) -> dict[str, str]:
        """The traces that anything is said about: key, and the name under which it was last."""
        with self._guard:
            self._catch_up()
            return {key: edits[-1].name for key, edits in self._by_trace.items()}

    def first(self) -> Edit | None:
        """The first edit of the file."""
        with self._guard:
            self._catch_up()
            return min(
                (edits[0] for edits in self._by_trace.values()),
                key=lambda edit: edit.rev,
                default=None,
            )

    def add(
        self,
        edit: Edit,
        *,
        base: int | None = None,
        check: Callable[[Sequence[Edit]], None] | None = None,
    ) -> Edit:
        """Append an edit; as it stands in the file.

        `check` gets what `of` the trace is in the file by then, and raises what forbids the edit:
        nothing comes in between, from no thread and no other process.

        `base` is the `rev` of the field's edit that the author saw (0 for none). If another one is
        in force by now, and from another tab, the edit is kept as `lost` and `Conflict` is raised.
        With None it holds whatever there was. Raises `JournalError` if the disk refuses.
        """
        edit = replace(edit, at=edit.at or datetime.now(UTC).isoformat(timespec="milliseconds"))
        with self._guard:
            file = AppendFile(self.path, fsync=True, wait=True)
            try:
                self._catch_up()
                if self._read_to < file.size:  # a writer was killed within its last line
                    file.truncate(self._read_to)
                if check is not None:
                    check(self._by_trace.get(edit.trace, ()))
                now = self._in_force.get((edit.trace, edit.round, edit.field))
                same_tab = now is not None and edit.tab != "" and now.tab == edit.tab
                if now is not None and same_tab and now.turn > edit.turn:
                    return now  # sent earlier, and overtaken on the way
                seen = base is None or now is None or now.rev == base or same_tab
                outdated = None if seen else now
                if outdated and outdated.value == edit.value:
                    return outdated  # both say the same
                file.append(replace(edit, lost=outdated is not None).line())
            finally:
                file.close()
            self._catch_up()
            if outdated:
                raise Conflict.of(outdated)
            return self._in_force[edit.trace, edit.round, edit.field]

    def _catch_up(self) -> None:
        """Read the whole lines that this or another process has added."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                added = file.read()
        except FileNotFoundError:
            return
        for line in added[: added.rfind(b"\n") + 1].splitlines(keepends=True):
            self._read_to += len(line)
            self._lines += 1
            if not line.strip():
                continue
            try:
                edit = _decode(line, self._lines)
            except (ValueError, TypeError, KeyError) as error:
                self.problems.append(f"{self.path}:{self._lines}: not an edit ({error})")
                continue
            if not edit.lost:
                self._by_trace.setdefault(edit.trace, []).append(edit)
                self._in_force[edit.trace, edit.round, edit.field] = edit


def _decode(line: bytes, number: int) -> Edit:
    row = json.loads(line)
    return Edit(
        by=str(row["by"]),
        trace=str(row["trace"]),
        field=str(row["field"]),
        value=row["value"],
        round=int(row.get("round", 1)),
        name=str(row.get("name", "")),
        tab=str(row.get("tab", "")),
        turn=int(row.get("turn", 0)),
        at=str(row.get("at", "")),
        lost=bool(row.get("lost")),
        rev=number,
    )
