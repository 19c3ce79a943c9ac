"""Absent verification: something is handed over that nobody checked in its last form.

What is handed over: the artifacts that the header's goal names, else all artifacts, else the
answer that the goal asks for. A check is a `verify` event of a role of the team, after the last
change of what it checks. What the environment verifies for itself is no check of the team's.
"""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.failure_taxonomy.detectors.base import LOST, NO_STOP, Detector
from rolecraft.failure_taxonomy.detectors.ending import ending
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.events import FailureFinding

MODE = "verification.absent"
ANSWER = ""
"""Name of a delivery that is no artifact."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A thing that is handed over, and the position at which it got its last form."""

    name: str
    at: int
    checked: bool


class VerificationAbsent(Detector):
    """Decides `verification.absent` on traces that record `verify` and `stop` events.

    A format that records actions and artifacts, but no checks as such, shows a check as an action
    of such a name: there it can find the mode and not rule it out. A role, an action or a tool
    whose name speaks of checking may have checked without a `verify` event: then the verdict is
    `unknown`.
    """

    name = "detector.verification_absent"
    modes = (MODE,)
    needs_end = True

    def look(self, view: TraceView) -> list[FailureFinding]:
        return [self._judge(view)]

    def _judge(self, view: TraceView) -> FailureFinding:
        if not view.records("verify") and not view.records("action", "artifact"):
            return self.unknown(MODE, "the format does not record checks as such")
        end = ending(view)
        if end is None:
            return self.unknown(MODE, NO_STOP)
        if not view.whole:
            return self.unknown(MODE, LOST)
        deliveries = _deliveries(view)
        if not deliveries:
            return self.unknown(MODE, "the trace does not say what is handed over")
        open_ones = [delivery for delivery in deliveries if not delivery.checked]
        if not open_ones:
            return self.absent(MODE, "what was handed over was checked in its last form")
        if view.stop is not None and not view.ended_by_team:
            return self.unknown(MODE, f"`{view.stop_reason}` ended the run before a check could be")
        if len(open_ones) < len(deliveries) and not view.goal.artifacts:
            return self.unknown(MODE, "some artifacts were checked; which ones count is not stated")
        since = min(delivery.at for delivery in open_ones)
        hidden = next((at for at in view.possible_checks if at > since), None)
        if hidden is not None:
            seq = view.events[hidden].seq
            return self.unknown(MODE, f"event {seq} may have been a check; no `verify` says so")
        last = max(open_ones, key=lambda delivery: delivery.at)
        handed_over = view.events[last.at]
        return self.present(
            MODE,
            [handed_over, end],
            role=handed_over.role,
            quote_of=handed_over,
            reason=f"nobody checked {_named(open_ones)}",
        )


def _named(deliveries: list[Delivery]) -> str:
    names = [delivery.name for delivery in deliveries]
    if names == [ANSWER]:
        return "the answer"
    return f"the last form of {', '.join(f'`{name}`' for name in names)}"


def _deliveries(view: TraceView) -> list[Delivery]:
    changes = view.artifact_changes
    names = [name for name in view.goal.artifacts if name in changes] or list(changes)
    if names:
        return [
            Delivery(name, changes[name][-1], _checked(view, name, changes[name][-1]))
            for name in names
        ]
    if not view.goal.answer:
        return []
    by = view.team if view.goal.answer is True else {view.goal.answer}
    for at in range(len(view.events) - 1, -1, -1):
        event = view.events[at]
        if event.kind == "message" and event.role in by:
            # The check of an answer may come before the message that gives it.
            return [Delivery(ANSWER, at, bool(view.checks))]
    return []


def _checked(view: TraceView, name: str, changed: int) -> bool:
    """True if the team checked this artifact, or the whole work, after its last change."""
    for at in view.checks:
        target = str(view.events[at].data.get("target"))
        if at > changed and (target == name or target not in view.artifact_changes):
            return True
    return False
