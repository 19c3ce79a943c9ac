"""The decisive failure: the first one from which the run did not recover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rolecraft.failure_taxonomy.detectors.constraints import watches
from rolecraft.failure_taxonomy.detectors.termination import when_met
from rolecraft.failure_taxonomy.report import Decisive
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.events import FailureFinding


def decisive(findings: Iterable[FailureFinding], view: TraceView) -> Decisive | None:
    """The earliest `present` finding that nothing later made good; None if there is none.

    A finding's step is the event that it names first. The run recovered from it if the header's
    goal was met later and until the end, or if the same role later kept the same constraint.
    """
    for finding in unrecovered(findings, view):
        return Decisive(finding.mode, finding.role, finding.events[0], finding)
    return None


def unrecovered(findings: Iterable[FailureFinding], view: TraceView) -> Iterator[FailureFinding]:
    """The `present` findings that nothing later made good, earliest first."""
    present = [finding for finding in findings if finding.verdict == "present"]
    if not present:
        return
    met = max((start for start, end in when_met(view) if end == len(view.events)), default=-1)
    seen = list(watches(view)) if any(f.source == "environment" for f in present) else []
    broken = {watch.event.seq: watch for watch in reversed(seen)}  # the first of an event
    kept = {(w.name, w.role): view.position[w.event.seq] for w in seen if w.kept}  # the last
    for finding in sorted(present, key=lambda finding: finding.events):
        if view.position[finding.events[0]] < met:
            continue
        watch = broken.get(finding.events[-1]) if finding.source == "environment" else None
        if watch and kept.get((watch.name, watch.role), -1) > view.position[watch.event.seq]:
            continue
        yield finding
