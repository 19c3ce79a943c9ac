"""Premature termination: the roles end the work while something is known to be open.

Open is: an artifact, or an answer, that the header's goal asks for and nobody made; a check that
the goal asks for and nobody ran; a check that failed and after which nothing that it is about was
changed; actions of a list that a role swapped in and did not begin; a direct question to a role
that did nothing any more; code that failed to run, answered by a bare farewell. A run that a limit,
an error or the caller cut off was not ended by its roles. Where a format records no stops, a
farewell that nobody answers (importers mark it `data["farewell"]`) is the end.

A finding's role is who left the thing open: whose answer, whose actions are missing, who said that
the check failed, who asked; where nobody in particular did, who acted last.

Whether something is open that the events do not decide (a goal's check without a result, or one
that failed before the last changes; a question beside a delivery) makes `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rolecraft.failure_taxonomy.detectors.base import LOST, NO_STOP, Detector
from rolecraft.failure_taxonomy.detectors.prose import QUESTION
from rolecraft.failure_taxonomy.detectors.termination import (
    COURTESY,
    while_passing,
    while_reached,
)
from rolecraft.failure_taxonomy.view import OUTSIDE, TraceView, is_constraint
from rolecraft.trajectories.events import Event, FailureFinding

MODE = "premature_end"

BARE = 12
"""A farewell with at most so many characters besides its sign says nothing about the work."""

_END = re.compile(r"[.!]\s+|[。！]|\n+")
_COURTESY = re.compile(
    r"((do you have |are there |is there )?(any|anything|anyone|further|more|other) ?"
    r"(more|other|further)? ?(questions?|comments?|thoughts?|feedback|concerns?|objections?|else)"
    r"|(is |are )?(all|everything|everyone|everybody) (good|clear|fine|happy|ok|okay|well)"
    r"|ok|okay|right|alright|agreed)\W*$",
    re.IGNORECASE,
)
"""Closing words in the form of a question. Those of other languages count as questions."""


@dataclass(frozen=True, slots=True)
class Left:
    """Something left open, and by whom; `event` is theirs and shows it, where there is one."""

    role: str
    event: Event | None
    reason: str
    also: Event | None = None


class PrematureEnd(Detector):
    """Decides `premature_end` on traces with a `stop` event and a goal that can be checked."""

    name = "detector.premature_end"
    modes = (MODE,)
    needs_end = True

    def look(self, view: TraceView) -> list[FailureFinding]:
        if ending(view) is None:
            return [self.unknown(MODE, NO_STOP)]
        if not view.whole:
            return [self.unknown(MODE, LOST)]
        if view.stop is not None and not view.ended_by_team:
            return [self.absent(MODE, f"`{view.stop_reason}` ended the run, not its roles")]
        said = [
            *_missing_artifacts(view),
            *_missing_answer(view),
            *_failed_checks(view),
            *_goal_not_passed(view),
            *_signal_not_reached(view),
            *_actions_not_begun(view),
            *_failed_run(view),
        ]
        said += _unanswered(view, delivered=_asks(view) and not said)
        found = [self._found(view, left) for left in said if isinstance(left, Left)]
        doubts = [doubt for doubt in said if isinstance(doubt, str)]
        if found:
            return found
        if doubts:
            return [self.unknown(MODE, doubts[0])]
        if not _asks(view):
            return [self.unknown(MODE, "the header has no goal that could still be open")]
        return [self.absent(MODE, "nothing that the goal asks for was open at the end")]

    def _found(self, view: TraceView, left: Left) -> FailureFinding:
        at = left.event or view.last_deed
        named = (at, left.also, view.last_deed, ending(view))
        return self.present(
            MODE,
            [event for event in named if event is not None],
            role=left.role,
            quote_of=left.also or left.event,
            reason=left.reason,
        )


def ending(view: TraceView) -> Event | None:
    """The event that ended the run: its stop, else the last farewell of a log that has no stops."""
    if view.stop is not None or view.records("stop"):
        return view.stop
    last = view.last_deed
    return last if last is not None and last.data.get("farewell") else None


def _asks(view: TraceView) -> bool:
    """True if the header asks for something that can be open at the end."""
    goal = view.goal
    return bool(goal.artifacts or goal.answer or goal.verify or goal.signal)


def _by_last(view: TraceView, reason: str) -> Left:
    """What nobody in particular left open, whoever acted last did."""
    last = view.last_deed or view.stop
    assert last is not None
    return Left(last.role, last, reason)


def _missing_artifacts(view: TraceView) -> Iterator[Left]:
    missing = [name for name in view.goal.artifacts if name not in view.artifact_changes]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        yield _by_last(view, f"the goal asks for {listed}, which nobody made")


def _missing_answer(view: TraceView) -> Iterator[Left]:
    who = view.goal.answer
    if not who:
        return
    by = view.team if who is True else {who}
    if any(event.kind == "message" and event.role in by for event in view.events):
        return
    if who is True or who not in view.team:
        yield _by_last(view, "nobody gave an answer" if who is True else f"`{who}` gave no answer")
    else:
        yield Left(who, view.last_deeds.get(who), f"`{who}` gave no answer")


def _failed_checks(view: TraceView) -> Iterator[Left]:
    """Checks whose last word was no, and after which nothing that they are about changed."""
    last: dict[str, int] = {}
    for at in view.checks:
        last[str(view.events[at].data.get("target"))] = at
    goal = view.goal.verify
    met = goal in last and _until_end(view, while_passing(view))
    for target, at in last.items():
        event = view.events[at]
        if met and last[goal] > at:  # what the goal asks for passed later
            continue
        if event.data.get("passed") is False and _last_change(view, target) < at:
            yield Left(event.role, event, f"the last check of `{target}` failed")


def _last_change(view: TraceView, target: str) -> int:
    """Position of the last change of what a check is about, -1 if there was none.

    That is the artifact of this name, else what the goal asks for, else all that was made.
    """
    changes = view.artifact_changes
    if target in changes:
        names = [target]
    else:
        names = [name for name in view.goal.artifacts if name in changes] or list(changes)
    return max((changes[name][-1] for name in names), default=-1)


def _goal_not_passed(view: TraceView) -> Iterator[Left | str]:
    """The check that the goal asks for was never run, or nothing shows that it passed."""
    target = view.goal.verify
    if not target or _until_end(view, while_passing(view)):
        return
    results = [
        event
        for event in view.events
        if event.kind == "verify"
        and event.data.get("target") == target
        and not is_constraint(event)
    ]
    if results:
        passed = results[-1].data.get("passed")
        if passed is not False:
            yield f"the last check of `{target}` came to no result"
        elif results[-1].role in OUTSIDE:
            yield f"`{target}` failed, and nothing shows that a role knew"
        elif _last_change(view, target) > view.position[results[-1].seq]:
            yield f"`{target}` failed, and was not checked again after the last change"
    elif not view.records("verify"):
        yield "the format does not record checks as such"
    elif view.possible_checks:
        seq = view.events[view.possible_checks[-1]].seq
        yield f"event {seq} may have been the check of `{target}`; no `verify` says so"
    else:
        yield _by_last(view, f"the goal asks that `{target}` passes, and nobody checked it")


def _signal_not_reached(view: TraceView) -> Iterator[str]:
    """Signals are measured after the fact, so a role need not have known."""
    if view.goal.signal and not _until_end(view, while_reached(view)):
        yield f"nothing shows that the goal's signal `{view.goal.signal}` was reached"


def _until_end(view: TraceView, spans: list[tuple[int, int]]) -> bool:
    return bool(spans) and spans[-1][1] == len(view.events)


def _actions_not_begun(view: TraceView) -> Iterator[Left]:
    swapped: dict[str, tuple[Event, list[str]]] = {}
    for event in view.events:
        if event.kind == "action_swap":
            names = event.data.get("actions")
            swapped[event.role] = event, list(map(str, names)) if isinstance(names, list) else []
        elif event.kind == "action" and event.role in swapped:
            left, done = swapped[event.role][1], str(event.data.get("action"))
            if done in left:
                left.remove(done)
    for role, (swap, left) in swapped.items():
        if left:
            listed = ", ".join(f"`{name}`" for name in left)
            yield Left(role, view.last_deeds.get(role), f"`{role}` did not begin {listed}", swap)


def _went_on(view: TraceView, at: int, last: Event) -> bool:
    """True if somebody said more than a courtesy between position `at` and the last event."""
    return any(
        event.kind == "message" and event is not last and len(event.content.strip()) > COURTESY
        for event in view.events[at + 1 :]
    )


def _failed_run(view: TraceView) -> Iterator[Left]:
    """Code that failed as the last thing that ran, and a farewell that says nothing besides."""
    last = view.last_deed
    if last is None or not last.data.get("farewell"):
        return
    if len(last.content.strip()) > len("TERMINATE") + BARE:
        return
    runs = [step for step in view.steps if step.finished and step.kind in ("code", "tool")]
    if runs and runs[-1].failed and not _went_on(view, runs[-1].end, last):
        result = view.events[runs[-1].end]
        reason = f"the code of event {view.events[runs[-1].start].seq} failed, and nobody went on"
        yield Left(last.role, last, reason, result if result.role == last.role else None)


def _unanswered(view: TraceView, *, delivered: bool) -> Iterator[Left | str]:
    """Questions to a role that did nothing any more.

    A question beside a delivery may be one only in form ("Here it is. Do you like it?"), so it
    counts for certain only if it is all that the message says and what the goal asks for is open.
    """
    acted = {event.role: at for at, event in enumerate(view.events) if event.kind != "signal"}
    for at, event in enumerate(view.events):
        if event.kind != "message" or event.role not in view.team:
            continue
        if not QUESTION.search(event.content):
            continue
        said = [part.strip() for part in _END.split(event.content) if part.strip()]
        if _COURTESY.match(said[-1]):
            continue
        for role in sorted((view.receivers(event) or frozenset()) - {event.role}):
            if acted.get(role, -1) >= at:
                continue
            if delivered or len(said) > 1:
                yield f"event {event.seq} may be a question that was left open, or only a close"
            else:
                reason = f"`{role}` was asked something and did nothing any more"
                yield Left(event.role, event, reason)
