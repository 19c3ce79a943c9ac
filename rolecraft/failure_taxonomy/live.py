"""Detectors while the run goes on: what they find is noted, said to the role, or ends the run.

    team = Team(roles, observers=[LiveDetectors(on={"repetition": "nudge", "reset": "stop"})])

Invariant: a finding is what the same detector says of the record up to the end of that round, with
the same events, and is acted on once. What it names first it would name first after the run as
well. Two findings can be taken back by what comes later, which nobody knows yet: a step that is
repeated until its outcome changes was waiting, and work on an artifact after the goal was met may
turn out to have been a revision.

The cost of a round is bounded: detectors that see their failure in a stretch of the record
(`Repetition`, `Constraints`) look at its last `window` events, all of them at the whole whenever
it has grown by a tenth since they last did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy.detectors import DETECTORS, Constraints, Detector, Repetition
from rolecraft.failure_taxonomy.modes import get_mode
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.events import Event, FailureFinding
from rolecraft.trajectories.observer import Directive, Wanted
from rolecraft.trajectories.trajectory import Trajectory

_NUMBERED = re.compile(r" (of|at|by|to|since|after) events? \d+(, \d+)*\b")

GROWTH = 1.1
"""The whole record is looked at again when it has grown so much: at most eleven times an event."""
LOCAL = (Repetition, Constraints)
"""Detectors that see their failure in a stretch of the record."""


class LiveDetectors:
    """An `Observer` that runs detectors after each round.

    `on` says by mode what is done with a finding: `note` records it, `nudge` also tells the role,
    `stop` ends the run. Without `on` everything is noted. A role is told at most `most` times of
    one mode, and then no more: what it does not take up it will not. One object watches one run
    at a time; a run that is gone on with is watched from its beginning.

    `detectors` are all that there are unless given. `on` then takes the modes that one of them
    looks for of its own accord; a constraint of any mode can be watched by an environment, and
    whoever has such a one says so with `detectors=[Constraints(), …]`.

    Raises `UsageError` for a mode that no detector decides or that is only found after the run,
    and for what cannot be done.
    """

    def __init__(
        self,
        on: Mapping[str, Wanted] | None = None,
        *,
        detectors: Sequence[Detector] | None = None,
        most: int = 3,
        window: int = 400,
    ) -> None:
        if on is not None and not isinstance(on, Mapping):
            raise UsageError(
                f'`on` says by mode what is done, `{{"repetition": "stop"}}`, not {on!r}.'
            )
        watching = DETECTORS if detectors is None else detectors
        everything = [mode for detector in watching for mode in detector.modes]
        self.on: dict[str, Wanted] = (
            dict(on) if on is not None else dict.fromkeys(everything, "note")
        )
        for mode, do in (on or {}).items():
            _check(get_mode(mode).id, watching, constraints=detectors is not None)
            if do not in get_args(Wanted):
                raise UnknownName("Directive", str(do), get_args(Wanted))
        if window < 1 or most < 1:
            raise UsageError(f"`window` and `most` are from 1, got {window!r} and {most!r}.")
        self.detectors = [d for d in watching if not self.on.keys().isdisjoint(d.modes)]
        self.most = most
        self.window = window
        self._heard: list[Event] = []
        self._begin()

    def _begin(self) -> None:
        self.found: list[FailureFinding] = []
        """What was found while the run went on, in order."""
        self.about: dict[str, Any] = {}
        self._events: list[Event] = []
        self._looked = 0
        self._named: dict[tuple[str, str], set[int]] = {}
        self._nudges: dict[tuple[str, str], int] = {}

    # --- the observer -------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        self._heard.append(event)

    on_known_event = on_event

    def on_round(self, about: Mapping[str, Any]) -> list[Directive]:
        """What is to be done about the findings of this round."""
        if not self._take_up():
            return []
        self.about = dict(about)
        wanted: list[Directive] = []
        for finding in self._new(self._look()):
            self.found.append(finding)
            wanted.append(self._directive(finding))
        return wanted

    # --- what has happened --------------------------------------------------------------------

    @property
    def findings(self) -> list[FailureFinding]:
        """What the detectors say of everything that happened so far: all verdicts, all modes."""
        self._take_up()
        view = TraceView(Trajectory("live", self.about, self._events))
        return [finding for detector in self.detectors for finding in detector.judge(view)]

    def _take_up(self) -> bool:
        """Put what is committed into the order of the record; False if nothing new is."""
        beginnings = [at for at, event in enumerate(self._heard) if event.seq == 0]
        if beginnings and (beginnings[-1] or self._events):
            self._heard = self._heard[beginnings[-1] :]
            self._begin()  # another run, or this one from its beginning
        committed = [event for event in self._heard if event.seq >= 0]
        if not committed:
            return False
        self._heard = [event for event in self._heard if event.seq < 0]
        committed.sort(key=lambda event: event.seq)
        self._events += committed
        return True

    # --- looking ------------------------------------------------------------------------------

    def _look(self) -> Iterable[FailureFinding]:
        events = self._events
        if len(events) <= self.window or len(events) >= GROWTH * self._looked:
            self._looked = len(events)
            looking, stretch = self.detectors, events
        else:
            looking = [d for d in self.detectors if isinstance(d, LOCAL)]
            stretch = events[-self.window :]
        if not looking:
            return []
        view = TraceView(Trajectory("live", self.about, stretch))
        said = [finding for detector in looking for finding in detector.judge(view)]
        present = [f for f in said if f.verdict == "present" and f.mode in self.on]
        return sorted(present, key=lambda finding: max(finding.events))

    def _new(self, findings: Iterable[FailureFinding]) -> list[FailureFinding]:
        """Those that are no continuation of one that is known."""
        new = []
        for finding in findings:
            named = self._named.setdefault((finding.mode, finding.role), set())
            if named.isdisjoint(finding.events[:2]):
                new.append(finding)
            named.update(finding.events)
        return new

    def _directive(self, finding: FailureFinding) -> Directive:
        do = self.on[finding.mode]
        if do == "nudge":
            told = self._nudges[finding.mode, finding.role] = (
                self._nudges.get((finding.mode, finding.role), 0) + 1
            )
            if told > self.most or not finding.role:
                do = "note"
        text = f"{get_mode(finding.mode).name}: {finding.reason}."
        if do == "nudge":  # numbers of events mean nothing to the role
            text = _NUMBERED.sub("", text) + " Do something else, or say what is missing."
        data = {
            "mode": finding.mode,
            "events": list(finding.events),
            "source": finding.source,
        }
        if finding.quote:
            data["quote"] = finding.quote
        return Directive(do, text, finding.role, data)


def _check(mode: str, detectors: Sequence[Detector], *, constraints: bool) -> None:
    """Raise `UsageError` for a mode that none of the detectors can find while a run goes on."""
    deciding = [
        detector
        for detector in detectors
        if mode in detector.modes and (constraints or not isinstance(detector, Constraints))
    ]
    if not deciding:
        others = (
            ""
            if constraints
            else (
                " Where an environment watches a constraint of that mode, say "
                "`detectors=[Constraints()]`."
            )
        )
        raise UsageError(
            f"No detector decides `{mode}`, so nothing would be done about it.{others}"
        )
    if all(detector.needs_end for detector in deciding):
        raise UsageError(
            f"`{mode}` is only found after the run: how it ended is what shows it. `annotate` says "
            "whether it is there."
        )
