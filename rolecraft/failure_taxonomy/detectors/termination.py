"""Unaware of termination: the goal is met, or out of reach, and the roles carry on.

Three signs. (1) The header's goal is met (see `goals`) and some role goes on with work it did
before: at least two steps of kinds that it had already done, none of them a check, and nobody
from outside asked for more. Closing reports, hand-overs and last steps of others are no sign.
(2) A message declared the work finished (importers mark it `data["farewell"]`) and code was
executed afterwards, or it was declared again and again. (3) A limit ended the run, and its last
steps only repeated earlier ones. (4) A role was told that something cannot be done, and asked for
it in the same words again and again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter

from rolecraft.failure_taxonomy.detectors.base import LOST, NO_STOP, Detector
from rolecraft.failure_taxonomy.detectors.repetition import repeated_runs
from rolecraft.failure_taxonomy.steps import Step, outermost
from rolecraft.failure_taxonomy.view import (
    OUTSIDE,
    TraceView,
    has_any,
    is_constraint,
    sounds_like_check,
)
from rolecraft.trajectories.events import Event, FailureFinding

MODE = "termination_unaware"
MOST_RESUMED = 1
"""How many steps of its old work a role may take after the goal is met: one is under way."""
STALLED = 4
"""So many last steps without news, ended by a limit, are a stall."""
FAREWELLS = 3
"""So many farewells in a row: one ends the work, a second returns it."""
COURTESY = 80
"""What is said between farewells is work from so many characters on."""
AGAIN = 2
"""So many times the same is asked again of somebody who cannot do it: once may be for courtesy."""
CANNOT = re.compile(
    r"\b(?:I|we) (?:cannot|can't|can not|am unable to|are unable to|'m unable to)\b|"
    r"\b(?:cannot|can't|unable to|impossible to) (?:proceed|continue|go on|do (?:this|that|it))\b|"
    r"\b(?:is|it's) (?:impossible|not possible)\b|"
    r"\bI (?:do not|don't) have (?:access|permission)\b",
    re.IGNORECASE,
)


class TerminationUnaware(Detector):
    """Decides `termination_unaware` where the header has a goal that events show to be met."""

    name = "detector.termination_unaware"
    modes = (MODE,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        steps = outermost(view.steps)
        found = (
            self._after_goal(view, steps)
            or self._after_farewell(view, steps)
            or self._farewells(view)
            or self._stall(view)
            or self._hopeless(view)
        )
        return [found or self._nothing_found(view)]

    def _after_goal(self, view: TraceView, steps: list[Step]) -> FailureFinding | None:
        for met, end in when_met(view):
            resumed = _resumed(view, steps, met, end)
            count = Counter(step.role for step in resumed)
            role = next((step.role for step in resumed if count[step.role] > MOST_RESUMED), None)
            if role is None:
                continue
            own = [view.events[step.start] for step in resumed if step.role == role]
            return self.present(
                MODE,
                [own[MOST_RESUMED], view.events[met], *own],
                role=role,
                quote_of=own[MOST_RESUMED],
                reason=(
                    f"the goal was met at event {view.events[met].seq}; `{role}` went on with "
                    f"{len(own)} steps of the same work"
                ),
            )
        return None

    def _after_farewell(self, view: TraceView, steps: list[Step]) -> FailureFinding | None:
        end = next((at for at, event in enumerate(view.events) if event.data.get("farewell")), None)
        if end is None:
            return None
        later = [step for step in steps if step.start > end and step.kind == "code"]
        if not later:
            return None
        work = view.events[later[0].start]
        return self.present(
            MODE,
            [work, view.events[end], *(view.events[step.start] for step in later)],
            role=later[0].role,
            quote_of=work,
            reason=f"event {view.events[end].seq} ended the work, and code was still executed",
        )

    def _farewells(self, view: TraceView) -> FailureFinding | None:
        """The work is declared finished several times, and nothing happens in between."""
        said: list[Event] = []
        for event in view.events:
            outside = event.kind == "message" and event.role in OUTSIDE
            if outside or event.kind in ("tool_call", "artifact", "tool_result"):
                said.clear()
            elif event.kind != "message":
                continue
            elif not event.data.get("farewell"):
                if len(event.content) > COURTESY:
                    said.clear()
            else:
                said.append(event)
                if len(said) == FAREWELLS:
                    return self.present(
                        MODE,
                        [said[1], *said],
                        role=said[1].role,
                        quote_of=said[1],
                        reason=f"the work was declared finished {FAREWELLS} times in a row",
                    )
        return None

    def _hopeless(self, view: TraceView) -> FailureFinding | None:
        """The same request to somebody who has said that it cannot be done."""
        asked: dict[tuple[str, bytes], list[Event]] = {}
        refused: dict[tuple[str, bytes], Event] = {}
        last: tuple[str, bytes] | None = None
        for at, event in enumerate(view.events):
            if event.kind in ("artifact", "tool_result", "reset", "truncate") or (
                event.kind == "message" and event.role in OUTSIDE
            ):
                refused.clear()  # something is new: it may work now
                asked.clear()
            if event.kind != "message" or event.role not in view.team:
                continue
            if (
                last is not None
                and last[1] in view.said_again
                and event.role != last[0]
                and _refuses(event.content)
            ):
                refused.setdefault(last, event)
            last = event.role, view.texts[at]
            if last not in refused or event.data.get("farewell"):
                continue
            again = asked.setdefault(last, [])
            again.append(event)
            if len(again) == AGAIN:
                no = refused[last]
                return self.present(
                    MODE,
                    [again[0], no, *again[1:]],
                    role=event.role,
                    quote_of=again[0],
                    reason=(
                        f"`{no.role}` had said at event {no.seq} that it cannot be done; "
                        f"`{event.role}` asked for the same {AGAIN} times more"
                    ),
                )
        return None

    def _stall(self, view: TraceView) -> FailureFinding | None:
        if view.stop_reason not in ("rounds", "limit"):
            return None
        steps = [step for step in view.steps if step.finished and step.left]
        idle = {step for run in repeated_runs(view) for step in run[1:]}
        tail: list[Step] = []
        for step in reversed(steps):
            if step not in idle:
                break
            tail.append(step)
        if len(tail) < STALLED or view.stop is None:
            return None
        tail.reverse()
        first = view.events[tail[0].start]
        return self.present(
            MODE,
            [first, view.stop, *(view.events[step.start] for step in tail)],
            role=tail[0].role,
            quote_of=first,
            reason=f"the last {len(tail)} steps brought nothing new until a limit ended the run",
        )

    def _nothing_found(self, view: TraceView) -> FailureFinding:
        if not view.goal.tells_when_met:
            return self.unknown(MODE, "the header has no goal that events show to be met")
        if not view.whole:
            return self.unknown(MODE, LOST)
        if view.stop is None:
            return self.unknown(MODE, NO_STOP)
        if not view.ended_by_team and not when_met(view):
            return self.unknown(
                MODE,
                f"`{view.stop_reason}` ended the run; nothing tells if the goal was out of reach",
            )
        return self.absent(MODE, "no role went on with its work after the goal was met")


def _refuses(text: str) -> bool:
    hints = ("not", "n't", "nable", "mpossible")
    return has_any(text, hints) and CANNOT.search(text[:2000]) is not None


def _resumed(view: TraceView, steps: list[Step], met: int, end: int) -> list[Step]:
    """Steps in the time in which the goal is met that go on with what their role did before."""
    asked = bisect_right(view.user_messages, met)
    if asked < len(view.user_messages):  # somebody outside wants more
        end = min(end, view.user_messages[asked])
    at_goal = view.events[met]
    before = {(step.role, step.name) for step in steps if step.start <= met}
    return [
        step
        for step in steps
        if met < step.start < end
        and (step.role, step.name) in before
        and not sounds_like_check(step.name)
        and not _at_the_same_time(view.events[step.start], at_goal)
    ]


def _at_the_same_time(event: Event, goal: Event) -> bool:
    """True if the role cannot have known: it acted in the same round as another role."""
    return event.time == goal.time and event.role != goal.role and event.time > 0


def when_met(view: TraceView) -> list[tuple[int, int]]:
    """Spans of positions in which all parts of the goal are met: [first, end)."""
    goal, end = view.goal, len(view.events)
    spans = [(-1, end)]
    if goal.verify:
        spans = _both(spans, while_passing(view))
    if goal.signal:
        spans = _both(spans, while_reached(view))
    if goal.artifacts:
        changes = [view.artifact_changes.get(name) for name in goal.artifacts]
        # Revisions are work on the goal: it is met once the last artifact has its last form.
        last = max((places[-1] for places in changes if places), default=end)
        spans = _both(spans, [(last, end)] if all(changes) else [])
    return spans if goal.tells_when_met else []


def while_passing(view: TraceView) -> list[tuple[int, int]]:
    """Spans of positions in which the goal's check last passed."""
    results = [
        (at, event.data.get("passed") is True)
        for at, event in enumerate(view.events)
        if event.kind == "verify"
        and event.data.get("target") == view.goal.verify
        and not is_constraint(event)
    ]
    return _spans(results, len(view.events))


def while_reached(view: TraceView) -> list[tuple[int, int]]:
    """Spans of positions in which the goal's signal was last within its bounds."""
    results = []
    for at, event in enumerate(view.events):
        if event.kind == "signal" and event.data.get("name") == view.goal.signal:
            measured = view.position.get(event.cause, at) if event.cause is not None else at
            results.append((measured, view.goal.bounds.hold(event.data.get("value")) is True))
    return _spans(results, len(view.events))


def _spans(results: list[tuple[int, bool]], end: int) -> list[tuple[int, int]]:
    """From true/false at positions to the spans in which the last word was true."""
    spans: list[tuple[int, int]] = []
    since: int | None = None
    for at, good in results:
        if good and since is None:
            since = at
        elif not good and since is not None:
            spans.append((since, at))
            since = None
    return [*spans, (since, end)] if since is not None else spans


def _both(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans that lie in one of `left` and in one of `right`."""
    common = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return [(start, end) for start, end in common if start < end]
