"""Lost history: after part of a role's context was dropped, it goes on from an older state.

A `truncate` event of the role comes first. Then either an artifact goes back to a content that it
had before, by the role's own hand, although the trace shows no reason: nobody spoke of going back,
and no check of the newer content failed. Or the role asks again, word for word, what it had asked
before the truncation and got an answer to.

Without a truncation on record, going back may be a decision, and the mode stays `unknown`. It is
never called absent: what is overlooked as a whole leaves no event.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from rolecraft.failure_taxonomy.detectors.base import Detector
from rolecraft.failure_taxonomy.detectors.prose import QUESTION
from rolecraft.failure_taxonomy.view import OUTSIDE, TraceView
from rolecraft.trajectories.events import Event, FailureFinding

MODE = "history_loss"

_BACK = re.compile(
    r"\b(?:revert|restor|undo|undid|roll(?:ed|ing|s)? ?back|withdr[ae]w|discard|go(?:ing|es)? back|"
    r"back to|previous|earlier|older|original|first (?:version|draft)|former|again as it was)",
    re.IGNORECASE,
)
WAIT = 200
"""An answer is looked for in so many events after the question."""
SHORTEST = 10
"""A shorter question (in characters), such as "Why?", may well be another one each time."""


class HistoryLoss(Detector):
    """Finds `history_loss` in traces that record `truncate` events."""

    name = "detector.history_loss"
    modes = (MODE,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        if not view.records("truncate"):
            return [
                self.unknown(MODE, "the format does not record what was dropped from a context")
            ]
        cuts: dict[str, list[int]] = {}
        for at, event in enumerate(view.events):
            if event.kind == "truncate":
                cuts.setdefault(event.role, []).append(at)
        if not cuts:
            return [self.unknown(MODE, "nothing was dropped from a context")]
        found = [*self._gone_back(view, cuts), *self._asked_again(view, cuts)]
        if not found:
            return [self.unknown(MODE, "a context was cut, and no rule sees that it did harm")]
        return sorted(found, key=lambda finding: finding.events)

    def _gone_back(self, view: TraceView, cuts: dict[str, list[int]]) -> Iterator[FailureFinding]:
        """Artifacts that a role brought back to an older content after its context was cut."""
        reasons = _reasons_to_go_back(view)
        for name, places in view.artifact_changes.items():
            had: dict[str, int] = {}
            for index, at in enumerate(places):
                event = view.events[at]
                assert event.artifact is not None
                older = had.get(event.artifact.sha256)
                had[event.artifact.sha256] = at
                if older is None:
                    continue
                newer = places[index - 1]
                cut = _cut_between(cuts, event.role, newer, at)
                end = _turn_ends(view, at) if cut is not None else None
                if cut is None or end is None:
                    continue
                if bisect_right(reasons, end) > bisect_left(reasons, newer):
                    continue
                yield self.present(
                    MODE,
                    [event, view.events[cut], view.events[newer], view.events[older]],
                    role=event.role,
                    quote_of=event,
                    reason=(
                        f"`{name}` is again as it was at event {view.events[older].seq}, after "
                        f"part of `{event.role}`'s context was dropped"
                    ),
                )

    def _asked_again(self, view: TraceView, cuts: dict[str, list[int]]) -> Iterator[FailureFinding]:
        """Questions that were answered before the cut, and asked word for word after it."""
        asked: dict[tuple[str, bytes], int] = {}
        for at, event in enumerate(view.events):
            if event.kind != "message" or event.role not in cuts or len(event.content) < SHORTEST:
                continue
            if not QUESTION.search(event.content):
                continue
            key = event.role, view.texts[at]
            before = asked.setdefault(key, at)
            if before == at:
                continue
            cut = _cut_between(cuts, event.role, before, at)
            answer = _answer(view, before, cut) if cut is not None else None
            asked[key] = at
            if cut is None or answer is None:
                continue
            yield self.present(
                MODE,
                [event, view.events[cut], answer, view.events[before]],
                role=event.role,
                quote_of=event,
                reason=(
                    f"`{event.role}` asks again what event {answer.seq} had answered, after part "
                    "of its context was dropped"
                ),
            )


def _cut_between(cuts: dict[str, list[int]], role: str, start: int, end: int) -> int | None:
    """Position of the role's last truncation in (start, end); what names no role is everyone's."""
    last = [
        places[before - 1]
        for name in {role, ""}
        if (places := cuts.get(name)) and (before := bisect_left(places, end)) > 0
    ]
    return max((at for at in last if at > start), default=None)


def _reasons_to_go_back(view: TraceView) -> list[int]:
    """Positions of what can be why an older content comes back."""
    spoken = ("message", "thought", "model_call")
    return [
        at
        for at, event in enumerate(view.events)
        if event.kind in ("error", "fork", "resume")
        or (event.kind == "verify" and event.data.get("passed") is False)
        or (event.kind == "message" and event.role in OUTSIDE)
        or (event.kind in spoken and _BACK.search(event.content))
    ]


def _turn_ends(view: TraceView, at: int) -> int | None:
    """Position of what the role says after its deed at `at`; the end of a run that is over."""
    role = view.events[at].role
    for later in range(at + 1, len(view.events)):
        event = view.events[later]
        if event.role == role and event.kind in ("message", "action"):
            return later
    return None if view.stop is None else len(view.events)


def _answer(view: TraceView, question: int, cut: int) -> Event | None:
    """What somebody else who was asked said to the asker, before its context was cut."""
    asker = view.events[question].role
    asked = view.receivers(view.events[question])
    for event in view.events[question + 1 : min(cut, question + 1 + WAIT)]:
        if event.kind != "message" or event.role in (asker, ""):
            continue
        if asked is not None and event.role not in asked:
            continue
        receivers = view.receivers(event)
        heard = receivers is None or asker in receivers
        if heard and event.content.strip() and not QUESTION.search(event.content):
            return event
    return None
