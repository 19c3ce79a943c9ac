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
    for finding in sorted(present, key=lambda finding: finding.events):
        if not _recovered(finding, view):
            yield finding


def _recovered(finding: FailureFinding, view: TraceView) -> bool:
    at = view.position[finding.events[0]]
    if any(start > at and end == len(view.events) for start, end in when_met(view)):
        return True
    if finding.source != "environment":
        return False
    seen = list(watches(view))
    broken = next((watch for watch in seen if watch.event.seq == finding.events[-1]), None)
    return broken is not None and any(
        watch.kept and watch.name == broken.name and watch.role == broken.role
        for watch in seen
        if view.position[watch.event.seq] > view.position[broken.event.seq]
    )
