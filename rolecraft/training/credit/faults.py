"""From findings to the turns at fault, and their blame onto the tokens of an episode.

Only findings that are `present` and hold when checked against the events count; `unknown` moves
nothing. A finding's first event is where the failure happened, and the turn that led to it is at
fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from rolecraft.failure_taxonomy.attribution import unrecovered
from rolecraft.failure_taxonomy.detectors import DETECTORS
from rolecraft.failure_taxonomy.evidence import verified
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.training.credit.attempts import Attempt, Place
from rolecraft.training.credit.blame import Blame, moved
from rolecraft.trajectories.events import FailureFinding
from rolecraft.trajectories.trajectory import Trajectory


@dataclass(slots=True)
class Blamed:
    """What became of the findings of a batch."""

    moved: int = 0
    """Turns at fault whose blame moved advantage."""
    unplaced: int = 0
    """Failures of roles that are not trained, or before any turn of theirs: nothing to move to."""
    unverified: int = 0
    """Findings that do not hold when checked against the events."""


def detected(trajectory: Trajectory) -> list[FailureFinding]:
    """What the detectors say about a run."""
    view = TraceView(trajectory)
    return [finding for detector in DETECTORS for finding in detector.judge(view)]


def apply_blame(
    attempts: Sequence[Attempt], findings: Iterable[FailureFinding], blame: Blame, found: Blamed
) -> None:
    """Move advantage within one episode, whose attempts these are; counts into `found`."""
    view = TraceView(attempts[0].episode.trajectory)
    failures = _failures(view, findings, blame, found)
    guilty: set[tuple[str, int]] = set()
    by_role = {attempt.role: attempt for attempt in attempts}
    for failure in failures:
        attempt = by_role.get(failure.role or view.by_seq[failure.events[0]].role)
        number = attempt.place_of(failure.events[0]) if attempt is not None else None
        if attempt is None or number is None:
            found.unplaced += 1
        else:
            guilty.add((attempt.role, number))
    turns: list[tuple[Place, list[int], bool]] = [
        (place, place.actions, (attempt.role, number) in guilty)
        for attempt in attempts
        for number, place in enumerate(attempt.places)
    ]
    turns = [turn for turn in turns if turn[1]]
    means = [fmean(place.sequence.advantages[at] for at in actions) for place, actions, _ in turns]
    shifts = moved(means, [fault for *_, fault in turns], blame=blame)
    for (place, actions, fault), shift in zip(turns, shifts, strict=True):
        if shift:
            found.moved += fault
            for at in actions:
                place.sequence.advantages[at] += shift


def _failures(
    view: TraceView, findings: Iterable[FailureFinding], blame: Blame, found: Blamed
) -> list[FailureFinding]:
    """The findings that count: present, verified, sure enough, and not made good later."""
    kept: list[FailureFinding] = []
    for finding in findings:
        if finding.verdict != "present":
            continue
        if blame.modes is not None and finding.mode not in blame.modes:
            continue
        if finding.confidence is not None and finding.confidence < blame.confidence:
            continue
        fact = finding.source == "environment"
        held = verified(finding, view.by_seq, fact=fact, silent=view.silent)
        if isinstance(held, str):
            found.unverified += 1
        else:
            kept.append(held)
    failures = list(unrecovered(kept, view))
    return failures[:1] if blame.findings == "decisive" else failures
