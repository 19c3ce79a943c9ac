"""Constraints that a program watches: what an environment found out about the rules of its task.

An environment that can check a rule of the task, or of a role, says so in one of two ways.

With a `verify` event for each violation (and, if it likes, each observance):

    Event("verify", role="environment", cause=<seq of the event that was checked>, data={
        "target": "read", "passed": False, "constraint": "asked_register", "mode": "task_spec"})

Or with a signal that the header's list of constraints names:

    about["constraints"] = [{"name": "asked_register", "mode": "task_spec",
                             "text": "The planner reads the register that is asked for.",
                             "signal": "relay.register", "at_least": 1}]

`mode` is the concept id that a violation counts as (`task_spec` if nothing is said), in the event
or in the header's entry of that name. Answerable is `data["role"]` or the signal's role, else the
role of the event that was checked. `text` is for readers and judges.

A violation is a fact and not an opinion: its source is `environment`, its confidence 1.
Observance is not the mode's absence, because a program checks only part of what a task says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rolecraft.errors import TraceError, UnknownName
from rolecraft.failure_taxonomy.detectors.base import Detector
from rolecraft.failure_taxonomy.evidence import quotable
from rolecraft.failure_taxonomy.goals import Bounds
from rolecraft.failure_taxonomy.modes import MODES, get_mode
from rolecraft.failure_taxonomy.view import OUTSIDE, TraceView, is_constraint
from rolecraft.trajectories.events import Event, FailureFinding


@dataclass(frozen=True, slots=True)
class Watch:
    """One look at one constraint: what was looked at (`deed`) and the event that says so."""

    name: str
    mode: str
    role: str
    kept: bool | None
    event: Event
    deed: Event | None


class Constraints(Detector):
    """Finds violated constraints, of whatever mode they are. Says nothing where none is watched."""

    name = "detector.constraints"

    @property
    def modes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Every known mode, your own ones too: a constraint names the mode that it is of."""
        return tuple(MODES)

    def look(self, view: TraceView) -> list[FailureFinding]:
        watched: dict[str, list[Watch]] = {}
        for watch in watches(view):
            watched.setdefault(watch.mode, []).append(watch)
        findings: list[FailureFinding] = []
        for mode, seen in watched.items():
            broken = [watch for watch in seen if watch.kept is False]
            findings += [self._violation(watch) for watch in broken]
            if not broken:
                reason = "all watched constraints were kept; other requirements were not looked at"
                findings.append(self.unknown(mode, reason))
        return findings

    def _violation(self, watch: Watch) -> FailureFinding:
        deed, event = watch.deed, watch.event
        found = self.present(
            watch.mode,
            [deed, event] if deed is not None else [event],
            role=watch.role,
            quote_of=deed if deed is not None and quotable(deed).strip() else event,
            reason=f"constraint `{watch.name}` is violated",
        )
        return replace(found, source="environment", confidence=1.0)


def watches(view: TraceView) -> Iterator[Watch]:
    """Every look at a constraint that the trace records, in order.

    Raises `TraceError` for a mode that does not exist.
    """
    listed = _listed(view)
    by_name = {str(entry.get("name")): entry for entry in listed}
    by_signal = {str(entry["signal"]): entry for entry in listed if entry.get("signal")}
    for event in view.events:
        deed = view.by_seq.get(event.cause) if event.cause is not None else None
        if is_constraint(event):
            name = str(event.data.get("constraint") or event.data.get("target") or "unnamed")
            entry: dict[str, Any] = {**by_name.get(name, {}), **event.data}
            kept = event.data.get("passed")
        elif event.kind == "signal" and str(event.data.get("name")) in by_signal:
            entry = by_signal[str(event.data["name"])]
            name = str(entry.get("name") or entry["signal"])
            kept = Bounds.of(entry).hold(event.data.get("value"))
        else:
            continue
        try:
            mode = get_mode(str(entry.get("mode") or "task_spec")).id
        except UnknownName as error:
            raise TraceError(view.trajectory.id, f"constraint `{name}`: {error}") from None
        role = str(event.data.get("role") or "") or _answerable(event, deed)
        yield Watch(name, mode, role, kept if isinstance(kept, bool) else None, event, deed)


def _answerable(event: Event, deed: Event | None) -> str:
    """Whom a signal is about, else who did what was checked, else who checked it."""
    by_signal = event.role if event.kind == "signal" else ""
    done_by = deed.role if deed is not None else ""
    named = (by_signal, done_by, event.role)
    return next((role for role in named if role not in OUTSIDE), "")


def _listed(view: TraceView) -> list[dict[str, Any]]:
    listed = view.about.get("constraints")
    entries = listed if isinstance(listed, (list, tuple)) else ()
    return [entry for entry in entries if isinstance(entry, dict)]
