"""Repeated text: a diagnostic, and not a failure mode.

The study excludes text that is merely said again from its taxonomy, so this never becomes a
finding. It tells a reader where to look.
"""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.failure_taxonomy.evidence import excerpt
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.trajectory import Trajectory

SHORTEST = 20
"""Shorter messages (in characters) are not looked at: "yes" and "done" are said again and again."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something worth a look that is no failure mode."""

    name: str
    role: str
    events: tuple[int, ...]
    quote: str


def repeated_text(trajectory: Trajectory | TraceView) -> list[Diagnostic]:
    """Messages that one role sent more than once, white space apart, in order of first sending."""
    view = TraceView.of(trajectory)
    said: dict[tuple[str, bytes], list[int]] = {}
    for at, event in enumerate(view.events):
        again = view.texts[at] in view.said_again
        if again and event.kind == "message" and len(event.content.strip()) >= SHORTEST:
            said.setdefault((event.role, view.texts[at]), []).append(at)
    return [
        Diagnostic(
            "repeated_text",
            role,
            tuple(view.events[at].seq for at in places),
            excerpt(view.events[places[0]]),
        )
        for (role, _), places in said.items()
        if len(places) > 1
    ]
