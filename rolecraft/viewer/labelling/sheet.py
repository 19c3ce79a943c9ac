"""A sheet: what one annotator says about one trace in one round, and which values a field takes.

A later round begins with what the round before it said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.labels import Blame
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.trajectories.events import FailureFinding, FindingVerdict
from rolecraft.viewer.labelling.edits import Edit
from rolecraft.viewer.labelling.traces import OpenTrace

MODE = "mode/"
"""What the field of a mode begins with: `mode/verification.absent`."""

MARKS = frozenset({"done", "revealed", "suggested", "begun", "joined"})
"""Fields that say how far the work is; everything else is a label."""

LONGEST = 100_000
"""Characters of the longest quote or note."""


@dataclass(slots=True)
class Sheet:
    """The state of one round. `values` and `revs` are by field; a field without a value is new."""

    round: int = 1
    values: dict[str, Any] = field(default_factory=dict)
    revs: dict[str, int] = field(default_factory=dict)
    authors: dict[str, str] = field(default_factory=dict)
    done: bool = False
    revealed: bool = False
    """Its author has seen what others say: from then on the round's labels stay as they are."""
    saw: tuple[str, ...] = ()
    """Sources of the suggestions that its author asked for and saw."""

    @property
    def locked(self) -> bool:
        return self.done or self.revealed

    @property
    def findings(self) -> list[FailureFinding]:
        """What is said of each mode that has a verdict, in the order of the modes."""
        said = ((mode, self.values.get(MODE + mode)) for mode in MODES)
        return [finding_of(mode, value) for mode, value in said if value and value["verdict"]]

    @property
    def decisive(self) -> Blame | None:
        value = self.values.get("decisive")
        return None if value is None else Blame(value["role"], value["step"])

    @property
    def outcome(self) -> bool | None:
        outcome: bool | None = self.values.get("outcome")
        return outcome

    @property
    def note(self) -> str:
        return str(self.values.get("note") or "")

    def unfinished(self, trace: OpenTrace) -> dict[str, str]:
        """By mode, what is still missing: a verdict, or evidence that holds."""
        said = {finding.mode: finding for finding in self.findings}
        missing = {}
        for mode in MODES:
            if mode not in said:
                missing[mode] = "has no verdict"
            elif isinstance(flaw := trace.check(said[mode]), str):
                missing[mode] = flaw
        return missing


def sheet_of(edits: Iterable[Edit], *, in_round: int | None = None) -> Sheet:
    """The sheet that edits about one trace amount to, in the given round or the latest."""
    edits = list(edits)
    latest = max((edit.round for edit in edits if edit.field == "begun"), default=1)
    sheet = Sheet(round=latest if in_round is None else in_round)
    for edit in sorted(edits, key=lambda edit: (edit.round, edit.rev)):
        if edit.round > sheet.round:
            break
        if edit.field == "suggested":  # what was seen once is not forgotten in a later round
            sheet.saw = tuple(dict.fromkeys([*sheet.saw, *edit.value]))
        elif edit.field in MARKS:
            if edit.round == sheet.round and edit.field in ("done", "revealed"):
                setattr(sheet, edit.field, bool(edit.value))
        else:
            sheet.values[edit.field] = edit.value
            sheet.authors[edit.field] = edit.by
            if edit.round == sheet.round:
                sheet.revs[edit.field] = edit.rev
    return sheet


def finding_of(mode: str, value: Mapping[str, Any]) -> FailureFinding:
    """A mode's value as a finding; evidence belongs to a `present` only."""
    present = value["verdict"] == "present"
    return FailureFinding(
        mode,
        value["verdict"],
        events=tuple(value["events"]) if present else (),
        role=value["role"] if present else "",
        quote=value["quote"] if present else "",
        source="person",
        reason=value["note"],
    )


def checked(name: str, value: Any, *, why: bool = False) -> Any:
    """A label's value in its one form. Raises `UsageError` for a field or value that is none.

    `why` allows a reason beside it, as adjudicators give.
    """
    if name.startswith(MODE):
        mode = name.removeprefix(MODE)
        if mode not in MODES:
            raise UsageError(f"There is no mode {mode!r} to label.")
        clean: dict[str, Any] | None = _mode(name, value)
    elif name == "decisive":
        clean = None if value is None else _decisive(value)
    elif name == "outcome":
        if value is not None and not isinstance(value, bool):
            raise UsageError(f"`outcome` is true, false or null, not {value!r}.")
        return value
    elif name == "note":
        return _text("note", value)
    else:
        raise UsageError(f"There is no field {name!r} to label.")
    if why and clean is not None:
        clean["why"] = _text("why", value.get("why", ""))
    return clean


def _mode(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"`{name}` is an object, not {value!r}.")
    verdict, events = value.get("verdict"), value.get("events", [])
    if verdict is not None and verdict not in get_args(FindingVerdict):
        raise UsageError(
            f"A verdict is one of {get_args(FindingVerdict)} or null, not {verdict!r}."
        )
    if not isinstance(events, list) or not all(map(_is_number, events)):
        raise UsageError(f"`events` are numbers of events, not {events!r}.")
    return {
        "verdict": verdict,
        "events": list(dict.fromkeys(events)),
        **{part: _text(part, value.get(part, "")) for part in ("role", "quote", "note")},
    }


def _decisive(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"`decisive` is an object or null, not {value!r}.")
    step = value.get("step")
    if step is not None and not _is_number(step):
        raise UsageError(f"`step` is the number of an event or null, not {step!r}.")
    return {"role": _text("role", value.get("role", "")), "step": step}


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise UsageError(f"`{name}` is a text of at most {LONGEST:,} characters.")
    return value
