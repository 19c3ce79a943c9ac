"""Detectors: rules on typed events that decide a failure mode without a model.

A detector answers for every trace, for each of its modes, with one or more `present` findings or
with one `absent` or `unknown`; an `unknown` gives its reason. It never guesses: what a trace
cannot show (its format knows no such events, lines are lost, the header states no goal) is
`unknown`, and a judge may still be asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from rolecraft.failure_taxonomy.evidence import excerpt, find_quote, quotable
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.events import Event, FailureFinding, FindingVerdict
from rolecraft.trajectories.trajectory import Trajectory

CONFIDENCE = 0.95
"""Confidence of a rule's finding: the precision that each detector is held to on planted runs."""

MOST_EVENTS = 20
"""A finding names at most this many events."""


class Detector(ABC):
    """A rule for one failure mode or several. Subclass it and write `look`."""

    name: str = ""
    modes: tuple[str, ...] = ()
    """Concept ids of the modes that it can decide."""
    needs_end: bool = False
    """True if it finds nothing before the run has ended: then no live detector can act on it."""

    def judge(self, trajectory: Trajectory | TraceView) -> list[FailureFinding]:
        """What this detector says about a trajectory, at least one finding for each mode.

        An event that a finding names first is where the failure happened; the others support it.
        """
        return self.look(TraceView.of(trajectory))

    @abstractmethod
    def look(self, view: TraceView) -> list[FailureFinding]:
        """Write this: `judge` on a view of the trajectory."""

    # --- the three verdicts -------------------------------------------------------------------

    def present(
        self,
        mode: str,
        events: Iterable[Event],
        *,
        role: str,
        reason: str,
        quote_of: Event | None,
        words: str = "",
    ) -> FailureFinding:
        """The failure is there. Quoted are the `words` of `quote_of` that show it, or its start."""
        quote = excerpt(quote_of) if quote_of is not None else ""
        if quote_of is not None and words:
            quote = find_quote(words, quotable(quote_of)) or quote
        named = tuple(dict.fromkeys(event.seq for event in events))[:MOST_EVENTS]
        return FailureFinding(
            mode,
            "present",
            events=named,
            role=role,
            quote=quote,
            confidence=CONFIDENCE,
            source=self.name,
            reason=reason,
        )

    def absent(self, mode: str, reason: str) -> FailureFinding:
        return self._without_events(mode, "absent", reason)

    def unknown(self, mode: str, reason: str) -> FailureFinding:
        return self._without_events(mode, "unknown", reason)

    def _without_events(self, mode: str, verdict: FindingVerdict, reason: str) -> FailureFinding:
        return FailureFinding(
            mode,
            verdict,
            confidence=CONFIDENCE if verdict == "absent" else None,
            source=self.name,
            reason=reason,
        )


LOST = "lines of the trace are lost"
NO_STOP = "the trace does not say how the run ended"
