"""Conversation reset: the dialogue begins anew although nothing called for it.

Four signs, each after progress: (1) a role's memory is cleared, or an importer saw the system set
up again (`reset` events); (2) a line of the system from before the first deed, which speaks of
setting up, comes again; (3) the task is put again, word for word; (4) the first turn is taken
again, word for word. Signs that stand together are one finding.

There is a cause where the user has spoken or a run has ended since the last deed, and for (3),
(4) and the roles of our own runs also where somebody has said that it is necessary to start over.
`resume` and `fork` go on, and are no resets.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from rolecraft.failure_taxonomy.detectors.base import LOST, Detector
from rolecraft.failure_taxonomy.turns import Wording, answering_machines
from rolecraft.failure_taxonomy.view import OUTSIDE, TraceView
from rolecraft.messages import USER
from rolecraft.trajectories.events import Event, EventKind, FailureFinding

MODE = "reset"
PROGRESS = 3
"""So many other turns lie between a text and its like: with fewer, one step is repeated."""
OWN_WORDS = 12
"""A shorter text may come again by custom: "Let us begin", "How far are you?"."""

_SAID: frozenset[EventKind] = frozenset({"message", "thought"})
_DEEDS: frozenset[EventKind] = _SAID | {"tool_call", "artifact", "verify"}
_OF_SYSTEM = OUTSIDE - {USER} | {"system", "System"}
_SETTING_UP = re.compile(
    r"\b(re-?)?(initiali[sz](ed|ing)|instantiat(ed|ing)|boot(ed|ing)|start(ed|ing)|creat(ed|ing)|"
    r"launch(ed|ing)|set(ting)? up|new (session|conversation|run|chat|instance))\b",
    re.IGNORECASE,
)
_LONGEST_LINE = 400
"""A line that speaks of setting up is short, in characters."""
_VARYING = re.compile(r"\d+")
"""Times, ports, numbers of processes: they differ between two starts of one system."""
_STATED = re.compile(
    r"\b(start(ing|ed)?|begin(ning)?|go(ing)?|back) (all )?(over|again|afresh|anew|to the (start|"
    r"beginning))\b|\bfrom scratch\b|\brestart|\brefuted\b|\b(discard|scrap|throw|threw|drop)\w*\b"
    r".{0,40}\b(plan|draft|away|everything|attempt)\b",
    re.IGNORECASE,
)
_LOOKED_BACK = 2
"""So many deeds before a sign may state its cause."""
_HEAD = 32


class Sign(NamedTuple):
    at: int
    why: str
    stated: bool
    """Whether a word of the team can be its cause."""


class Reset(Detector):
    """Decides `reset` on our journals, and on logs of systems that say when they are set up.

    On other logs it can find a reset, not rule one out: a new beginning in other words leaves no
    sign that a rule could see.
    """

    name = "detector.reset"
    modes = (MODE,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        deeds = _deeds(view)
        found = [self._finding(view, deeds, sign) for sign in uncaused_resets(view)]
        if found:
            return found
        if not view.records("reset"):
            return [self.unknown(MODE, "the format does not show resets, and no turn began anew")]
        if not view.whole:
            return [self.unknown(MODE, LOST)]
        return [self.absent(MODE, "nothing began anew without a cause")]

    def _finding(self, view: TraceView, deeds: list[int], sign: Sign) -> FailureFinding:
        event = view.events[sign.at]
        before = view.events[deeds[bisect_left(deeds, sign.at) - 1]]
        next_deed = bisect_right(deeds, sign.at)
        after = view.events[deeds[next_deed]] if next_deed < len(deeds) else before
        quoted = event if event.content.strip() else after
        return self.present(
            MODE,
            [event, quoted, before],
            role=quoted.role or after.role,
            quote_of=quoted,
            reason=sign.why,
        )


def uncaused_resets(view: TraceView) -> list[Sign]:
    """Where the dialogue begins anew without a cause."""
    deeds = _deeds(view)
    if not deeds:
        return []
    turns = [at for at in deeds if view.events[at].kind in _SAID] or deeds
    signs = [*_resets(view, deeds), *_set_up_again(view, deeds), *_begun_again(view, turns)]
    found: list[Sign] = []
    last = -1
    for sign in sorted(signs):
        together = last >= 0 and bisect_left(turns, sign.at) - bisect_left(turns, last) <= 1
        last = sign.at
        if not together and not _caused(view, deeds, sign):
            found.append(sign)
    return found


def _deeds(view: TraceView) -> list[int]:
    """Positions of what the team says and does."""
    team = view.team - _OF_SYSTEM
    return [
        at for at, event in enumerate(view.events) if event.role in team and event.kind in _DEEDS
    ]


# --- signs --------------------------------------------------------------------------------------


def _resets(view: TraceView, deeds: list[int]) -> Iterator[Sign]:
    begun: dict[str, int] = {}
    for deed in deeds:
        begun.setdefault(view.events[deed].role, deed)
    for at, event in enumerate(view.events):
        if event.kind != "reset" or at < deeds[0]:
            continue
        if not event.role or event.role not in view.team:
            yield Sign(at, "the system was set up again in the middle of the work", view.ours)
        elif begun.get(event.role, at) < at:
            yield Sign(at, f"`{event.role}` was cleared after it had done something", view.ours)


def _set_up_again(view: TraceView, deeds: list[int]) -> Iterator[Sign]:
    lines = {_varied(event) for event in view.events[: deeds[0]] if _speaks_of_set_up(event)}
    if not lines:
        return
    for at in range(deeds[0] + 1, len(view.events)):
        event = view.events[at]
        if _speaks_of_set_up(event) and _varied(event) in lines:
            yield Sign(at, "the system was set up again in the middle of the work", False)


def _speaks_of_set_up(event: Event) -> bool:
    return (
        event.role in _OF_SYSTEM
        and event.kind == "message"
        and 0 < len(event.content) <= _LONGEST_LINE
        and _SETTING_UP.search(event.content) is not None
    )


def _varied(event: Event) -> str:
    return _VARYING.sub("#", event.content.strip())


def _begun_again(view: TraceView, turns: list[int]) -> Iterator[Sign]:
    """Where the task is put again, or the first turn is taken again."""
    # In a log of others the first turn may be a program that puts the task: then the second counts.
    opening = turns[1] if len(turns) > 1 and _puts_task(view, turns[0]) else turns[0]
    machines = answering_machines(view)
    first: dict[tuple[str, tuple[str, ...], str], Wording] = {}
    for at, event in enumerate(view.events):
        if event.kind not in _SAID or (event.role == USER and view.ours):
            continue  # a person may ask again
        key = (event.role, event.to, event.content.strip()[:_HEAD])
        if at > opening and key not in first:
            continue
        if len(event.content.split(None, OWN_WORDS - 1)) < OWN_WORDS:
            continue
        if at <= opening:
            if event.role not in machines or _puts_task(view, at):
                first[key] = Wording(event.content, at)
        elif first[key].like(Wording(event.content)):
            between = bisect_left(turns, at) - bisect_right(turns, first[key].at)
            first[key].at = at
            if between >= PROGRESS:
                why = f"the dialogue's first words come again, {between} turns later"
                yield Sign(at, why, True)


def _puts_task(view: TraceView, at: int) -> bool:
    task = view.about.get("task")
    said = view.events[at].content.strip()
    return isinstance(task, str) and bool(task.strip()) and bool(said) and task.strip() in said


# --- causes -------------------------------------------------------------------------------------


def _caused(view: TraceView, deeds: list[int], sign: Sign) -> bool:
    place = bisect_left(deeds, sign.at)
    since = deeds[place - 1] if place else -1
    until = sign.at
    if view.events[sign.at].kind == "reset":
        following = bisect_right(deeds, sign.at)
        until = deeds[following] if following < len(deeds) else len(view.events)
    for at in range(since + 1, until):
        event = view.events[at]
        if event.kind == "stop" or (event.kind == "message" and event.role == USER):
            return True
    if not sign.stated:
        return False
    told = [view.events[deed].content for deed in deeds[max(0, place - _LOOKED_BACK) : place]]
    return any(_STATED.search(text) for text in told)
