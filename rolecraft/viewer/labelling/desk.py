"""The desk: traces, and who says what about them.

Invariants: nobody is given another annotator's labels of a trace before their own of that round
are closed; who has seen them, or has seen suggestions, is on record; and a closed round stays as
it is. Names are taken on trust: whoever can open the page can choose any name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.trajectories.jsonl import readable_name
from rolecraft.viewer.labelling.edits import Edit, EditLog
from rolecraft.viewer.labelling.sheet import MODE, Sheet, checked, sheet_of
from rolecraft.viewer.labelling.traces import OpenTrace

GOLD = "adjudication"
"""Round of an adjudication's edits is 1; its file is `adjudication.jsonl`."""


class NotAllowed(UsageError):
    """Something that the rules of labelling forbid; the message says what to do instead."""


class Desk:
    """Traces, and a folder in which labels are kept: a file for each annotator, one for gold."""

    def __init__(
        self,
        traces: Iterable[OpenTrace],
        folder: Path | str,
        *,
        suggestions: Iterable[Labels] = (),
    ) -> None:
        """`suggestions` are labels of detectors or judges, matched to traces by name."""
        self.traces = {trace.key: trace for trace in traces}
        self.folder = Path(folder)
        self.gold = EditLog(self.folder / f"{GOLD}.jsonl")
        self._logs: dict[str, EditLog] = {}
        self._guard = threading.Lock()
        by_name: dict[str, list[Labels]] = {}
        for labels in suggestions:
            by_name.setdefault(labels.trace, []).append(labels)
        self._suggestions = {
            key: by_name[trace.name] for key, trace in self.traces.items() if trace.name in by_name
        }

    # --- who ----------------------------------------------------------------------------------

    @property
    def annotators(self) -> list[str]:
        """Everyone who has a file in the folder, by name."""
        with self._guard:
            for path in sorted((self.folder / "annotators").glob("*.jsonl")):
                if not any(log.path == path for log in self._logs.values()):
                    log = EditLog(path)
                    if first := log.first():
                        self._logs[first.by] = log
            return sorted(self._logs)

    def join(self, name: str) -> str:
        """The annotator of this name, new or known; the name without spaces around it."""
        name = " ".join(name.split())
        if not name or len(name) > 60 or not name.isprintable():
            raise UsageError(f"An annotator's name has 1 to 60 characters, not {name!r}.")
        known = self.annotators
        if name in known:
            return name
        twin = next((other for other in known if other.casefold() == name.casefold()), None)
        if twin is not None:
            raise UsageError(f"There is an annotator {twin!r}; choose that name or another one.")
        log = EditLog(self.folder / "annotators" / _file_name(name, self._logs.values()))
        log.add(Edit(by=name, trace="", field="joined", value=True))
        with self._guard:
            self._logs[name] = log
        return name

    def _log(self, annotator: str) -> EditLog:
        if annotator not in self._logs and annotator not in self.annotators:
            raise UsageError(f"There is no annotator {annotator!r}; begin with a name.")
        return self._logs[annotator]

    def file_of(self, annotator: str) -> str:
        """The name of the file in which an annotator's edits are."""
        return self._log(annotator).path.name

    # --- reading ------------------------------------------------------------------------------

    def trace(self, key: str) -> OpenTrace:
        if key not in self.traces:
            raise UsageError(f"There is no trace {key!r} here.")
        return self.traces[key]

    def sheet(self, annotator: str, key: str, *, in_round: int | None = None) -> Sheet:
        """What an annotator says about a trace, in a round or in their latest."""
        return sheet_of(self._log(annotator).of(key), in_round=in_round)

    def finished(self, annotator: str, key: str, *, in_round: int | None = None) -> Sheet | None:
        """The annotator's sheet of a round that they have finished; by default the last such."""
        edits = self._log(annotator).of(key)
        latest = sheet_of(edits).round
        for number in [in_round] if in_round is not None else range(latest, 0, -1):
            sheet = sheet_of(edits, in_round=number)
            if sheet.done and number <= latest:
                return sheet
        return None

    def others(self, key: str, *, in_round: int | None = None) -> dict[str, Sheet]:
        """The finished sheets of all annotators about a trace, by name."""
        found = {name: self.finished(name, key, in_round=in_round) for name in self.annotators}
        return {name: sheet for name, sheet in found.items() if sheet is not None}

    def has_looked(self, annotator: str, key: str) -> bool:
        """True once the annotator has asked to see what others say about a trace."""
        return any(edit.field == "revealed" for edit in self._log(annotator).of(key))

    def gold_sheet(self, key: str) -> Sheet:
        return sheet_of(self.gold.of(key))

    @property
    def strays(self) -> dict[str, list[str]]:
        """Names of labelled traces that are not open, with their annotators."""
        names: dict[str, list[str]] = {}
        for annotator in self.annotators:
            for key, name in self._log(annotator).traces().items():
                if key and key not in self.traces:
                    names.setdefault(name, []).append(annotator)
        return names

    @property
    def problems(self) -> list[str]:
        """Lines of the folder's files that could not be read."""
        logs = [self._log(name) for name in self.annotators] + [self.gold]
        self.gold.traces()
        return [problem for log in logs for problem in log.problems]

    # --- labelling ----------------------------------------------------------------------------

    def edit(
        self,
        annotator: str,
        key: str,
        field: str,
        value: Any,
        *,
        base: int,
        in_round: int = 1,
        tab: str = "",
        turn: int = 0,
    ) -> Edit:
        """Say something about a trace.

        `base` is the number of the field's edit that was seen, `tab` and `turn` say in which window
        of the annotator's, and as its how manyth edit, it was typed; see `EditLog.add`. Raises
        `Conflict`, `NotAllowed` and `UsageError`.
        """

        def is_open(edits: Sequence[Edit]) -> None:
            sheet = sheet_of(edits)
            if in_round != sheet.round or sheet.locked:
                raise NotAllowed(
                    f"Round {in_round} of this trace is closed"
                    + (", as others' labels were looked at." if sheet.revealed else ".")
                    + " Reopen it, or begin the next round."
                )

        edit = Edit(
            by=annotator,
            trace=key,
            field=field,
            value=checked(field, value),
            round=in_round,
            name=self.trace(key).name,
            tab=tab,
            turn=turn,
        )
        return self._log(annotator).add(edit, base=base, check=is_open)

    def finish(self, annotator: str, key: str) -> None:
        """Close the present round. Every mode needs a verdict, every `present` its evidence."""
        trace = self.trace(key)

        def is_finished(sheet: Sheet) -> None:
            if missing := sheet.unfinished(trace):
                told = "; ".join(f"`{mode}` {flaw}" for mode, flaw in missing.items())
                raise NotAllowed(f"Not finished yet: {told}.")

        self._mark(annotator, key, "done", True, check=is_finished)

    def reopen(self, annotator: str, key: str) -> None:
        """Go on with a round that was closed by mistake, if nobody else's labels were seen yet."""

        def is_blind(sheet: Sheet) -> None:
            if sheet.revealed:
                raise NotAllowed(
                    "Others' labels of this trace were looked at: begin the next round."
                )

        self._mark(annotator, key, "done", False, check=is_blind)

    def reveal(self, annotator: str, key: str) -> None:
        """Look at what others say: from now on the round's labels stay as they are."""
        self._mark(annotator, key, "revealed", True)

    def begin_next(self, annotator: str, key: str) -> int:
        """Begin another round, after a discussion; its number."""

        def is_closed(sheet: Sheet) -> None:
            if not sheet.locked:
                raise NotAllowed(f"Finish round {sheet.round} of this trace first.")

        return self._mark(annotator, key, "begun", True, check=is_closed, next_round=True)

    @property
    def has_suggestions(self) -> frozenset[str]:
        """Keys of the traces about which there are suggestions."""
        return frozenset(self._suggestions)

    def suggest(self, annotator: str, key: str) -> Sequence[Labels]:
        """What detectors and judges say about a trace. That it was seen is stored first."""
        labels = self._suggestions.get(key, [])
        if labels and not self.sheet(annotator, key).locked:
            seen = sorted({row.annotator or "detectors" for row in labels})
            self._mark(annotator, key, "suggested", seen)
        return labels

    # --- adjudication -------------------------------------------------------------------------

    def adjudicate(
        self,
        annotator: str,
        key: str,
        field: str,
        value: Any,
        *,
        base: int,
        tab: str = "",
        turn: int = 0,
    ) -> Edit:
        """Decide what holds, with who decided and why."""
        self.must_have_looked(annotator, key)
        value = checked(field, value, why=True)
        edit = Edit(
            by=annotator,
            trace=key,
            field=field,
            value=value,
            name=self.trace(key).name,
            tab=tab,
            turn=turn,
        )
        return self.gold.add(edit, base=base)

    def gold_flaws(self, key: str) -> dict[str, str]:
        """By mode, why the evidence of what was adjudicated does not hold; it is not exported."""
        findings = self.gold_sheet(key).findings
        checks = ((finding.mode, self.trace(key).check(finding)) for finding in findings)
        return {mode: flaw for mode, flaw in checks if isinstance(flaw, str)}

    def must_have_looked(self, annotator: str, key: str) -> None:
        """Raise `NotAllowed` for who may not see others' labels of a trace yet."""
        if not self.has_looked(annotator, key):
            raise NotAllowed(
                "Others' labels of this trace are hidden until yours are finished and you ask "
                "to compare."
            )

    # --- internals ----------------------------------------------------------------------------

    def _mark(
        self,
        annotator: str,
        key: str,
        field: str,
        value: Any,
        *,
        check: Callable[[Sheet], None] | None = None,
        next_round: bool = False,
    ) -> int:
        """Say how far the work is; the round of the mark. `check` raises what forbids it."""
        now = self.sheet(annotator, key).round

        def allowed(edits: Sequence[Edit]) -> None:
            sheet = sheet_of(edits)
            if sheet.round != now:
                raise NotAllowed(f"Round {sheet.round} of this trace was begun in the meantime.")
            if check is not None:
                check(sheet)

        edit = Edit(
            by=annotator,
            trace=key,
            field=field,
            value=value,
            round=now + next_round,
            name=self.trace(key).name,
        )
        self._log(annotator).add(edit, check=allowed)
        return edit.round


def answered(sheet: Sheet) -> int:
    """How many modes have a verdict."""
    values: Mapping[str, Any] = sheet.values
    return sum(bool((values.get(MODE + mode) or {}).get("verdict")) for mode in MODES)


def _file_name(name: str, known: Iterable[EditLog]) -> str:
    taken = {log.path.name.casefold() for log in known}
    stem, number = readable_name(name), 1
    while (
        file := f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl"
    ).casefold() in taken:
        number += 1
    return file
