"""Weak verification: the team's verifier said that it passes, and the grounded check fails.

The grounded check is the environment's: the header's `outcome` (see `goals`), else its own
`verify` events of what the team checked too. It is read from measured events, which no judge is
shown. What a file's labels say about the outcome is read only where the caller wants it
(`WeakVerification(labelled=True)`); the finding's source then ends in `+outcome`.

The team said so with the last `verify` event of each thing that it checked, after the last change
of what is checked. A thing that was changed later, or not checked at all, is `verification.absent`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rolecraft.failure_taxonomy.detectors.base import LOST, NO_STOP, Detector
from rolecraft.failure_taxonomy.goals import Outcome
from rolecraft.failure_taxonomy.view import OUTSIDE, TraceView, is_constraint
from rolecraft.trajectories.events import Event, FailureFinding

MODE = "verification.weak"


@dataclass(frozen=True, slots=True)
class Grounded:
    """What was really so: of `target` ("" for the whole work), measured at position `at`."""

    target: str
    passed: bool
    at: int
    event: Event | None


class WeakVerification(Detector):
    """Decides `verification.weak` where the team records checks and the outcome is measured."""

    name = "detector.verification_weak"
    modes = (MODE,)
    needs_end = True

    def __init__(self, *, labelled: bool = False) -> None:
        self.labelled = labelled

    def look(self, view: TraceView) -> list[FailureFinding]:
        found = self._judge(view)
        if self.labelled and found.verdict != "unknown":
            found = replace(found, source=f"{self.name}+outcome")
        return [found]

    def _judge(self, view: TraceView) -> FailureFinding:
        if not view.records("verify"):
            return self.unknown(MODE, "the format does not record checks as such")
        if not view.whole:
            return self.unknown(MODE, LOST)
        if view.stop is None:
            return self.unknown(MODE, NO_STOP)
        if not view.ended_by_team:
            return self.unknown(MODE, f"`{view.stop_reason}` ended the run before it was done")
        grounded = _grounded(view) or (_labelled(view) if self.labelled else [])
        if not grounded:
            return self.unknown(MODE, "nothing tells whether the task was really done")
        agreed = 0
        for truth in grounded:
            checks = _last_checks(view, truth.target)
            verdicts = {view.events[at].data.get("passed") for at in checks}
            if verdicts != {True}:
                continue
            if _changed_since(view, checks[-1], truth.target):
                continue
            if truth.event is not None and _changed_since(view, truth.at, truth.target):
                continue
            if not truth.passed:
                return self._weak(view, view.events[checks[-1]], truth)
            agreed += 1
        if agreed == len(grounded):
            return self.absent(MODE, "what the team's checks passed was really so")
        return self.unknown(MODE, "no check of the team's passed what the grounded check looked at")

    def _weak(self, view: TraceView, check: Event, truth: Grounded) -> FailureFinding:
        named = [check, *([truth.event] if truth.event is not None else []), view.stop]
        what = str(check.data.get("target"))
        return self.present(
            MODE,
            [event for event in named if event is not None],
            role=check.role,
            quote_of=check,
            reason=f"`{check.role}` passed `{what}`, and {_said(truth)}",
        )


def _said(truth: Grounded) -> str:
    if truth.event is None:
        return "the labels of the trace say that the task was not done"
    if truth.event.kind == "signal":
        return f"the environment measured {truth.event.data.get('name')} = " + str(
            truth.event.data.get("value")
        )
    return f"the environment's own check of `{truth.event.data.get('target')}` failed"


def _grounded(view: TraceView) -> list[Grounded]:
    """The environment's last words on the outcome, or on each thing that it checked."""
    outcome = Outcome.of(view.about)
    last: dict[str, Grounded] = {}
    for at, event in enumerate(view.events):
        if event.kind == "signal" and outcome.signal and event.data.get("name") == outcome.signal:
            good = outcome.bounds.hold(event.data.get("value"))
            # What is measured of an event was so when that happened.
            since = view.position.get(event.cause, at) if event.cause is not None else at
            if good is not None:
                last["signal"] = Grounded("", good, since, event)
        elif event.kind == "verify" and event.role in OUTSIDE and not is_constraint(event):
            target, passed = str(event.data.get("target")), event.data.get("passed")
            if outcome.verify and target != outcome.verify:
                continue
            if isinstance(passed, bool):
                last[f"verify {target}"] = Grounded(target, passed, at, event)
    if outcome.signal:
        return [last["signal"]] if "signal" in last else []
    return list(last.values())


def _labelled(view: TraceView) -> list[Grounded]:
    """The outcome in the labels that the file came with."""
    from rolecraft.failure_taxonomy.formats import FORMATS

    form = FORMATS.get(str(view.about.get("format")))
    if form is None or form.labels is None:
        return []
    said = {labels.outcome for labels in form.labels(view.trajectory)} - {None}
    return [Grounded("", bool(said.pop()), len(view.events), None)] if len(said) == 1 else []


def _last_checks(view: TraceView, target: str) -> list[int]:
    """Positions of the team's last check of each thing that `target` is about, in order.

    A check of one artifact says nothing about another one, and checks of some artifacts nothing
    about the whole; any other check is about the work. Where the goal names a check, it counts.
    """
    parts = view.artifact_changes
    last: dict[str, int] = {}
    for at in view.checks:
        checked = str(view.events[at].data.get("target"))
        if not (target in parts and checked in parts and checked != target):
            last[checked] = at
    if view.goal.verify in last:
        return [last[view.goal.verify]]
    delivered = [name for name in view.goal.artifacts if name in parts] or list(parts)
    incomplete = target not in parts and parts and last.keys() <= parts.keys()
    if incomplete and not last.keys() >= set(delivered):
        return []
    return sorted(last.values())


def _changed_since(view: TraceView, at: int, target: str) -> bool:
    changes = view.artifact_changes
    names = [target] if target in changes else list(changes)
    return any(changes[name][-1] > at for name in names)
