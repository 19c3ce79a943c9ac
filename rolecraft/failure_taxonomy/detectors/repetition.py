"""Step repetition: a finished step is done again and nothing new calls for it.

Two steps are the same if role, action or tool, arguments and outcome are (white space, and times
within results, apart). The second is a repetition unless something happened in between that could
be its reason: the world changed (an artifact, a new kind of verification result, a tool that may
write, a word from outside the team), or the role learned something (a message it had not heard
before, and, for actions, a new result of its own). In a loop of several steps everything is new
in the first lap and nothing afterwards, so loops of any length show without a search for cycles.
A failure is an outcome: to try the same again, unchanged, and to fail again is a repetition.

In the logs of others turns are steps too (see `turns`): the same code, the same request to the
same role, the same paragraph. There, only a change of the world is a reason: a role that hears
something new and says what it said before has done nothing with it.

A step repeated until its outcome changes, with nothing else in between, was waiting. A reset
without a cause is no reason to do things again, nor is what anybody says after it; turns from
before it that come again after it are repetitions whatever was done in between.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from rolecraft.failure_taxonomy.detectors.base import LOST, Detector
from rolecraft.failure_taxonomy.detectors.reset import uncaused_resets
from rolecraft.failure_taxonomy.steps import Step
from rolecraft.failure_taxonomy.turns import logged_twice
from rolecraft.failure_taxonomy.view import OUTSIDE, TraceView
from rolecraft.messages import ALL, USER
from rolecraft.trajectories.events import Event, FailureFinding

_TIMES = re.compile(
    r"\b\d+(\.\d+)? ?(ms|s|secs?|seconds?|minutes?)\b|\b\d\d?:\d\d(:\d\d)?(\.\d+)?|0x[0-9a-f]+",
    re.IGNORECASE,
)
"""What differs between two results that are the same: durations, clock times, addresses."""


class Repetition(Detector):
    """Decides `repetition` on traces that record actions or tool calls.

    On chat logs it sees turns and executed code: it can find a repetition there, not rule one out.
    Nor where a log of others could have shown tool calls and has none that came to an end.
    """

    name = "detector.repetition"
    modes = ("repetition",)

    def look(self, view: TraceView) -> list[FailureFinding]:
        found = [self._finding(view, run) for run in repeated_runs(view)]
        if found:
            return sorted(found, key=lambda finding: finding.events)
        if not view.records("action"):
            calls = view.records("tool_call")
            if not calls or not any(step.finished for step in view.steps):
                what = (
                    "no tool call that came to an end is on record"
                    if calls
                    else "the format records neither actions nor tool calls"
                )
                return [self.unknown("repetition", f"{what}, and no turn came again")]
        if not view.whole:
            return [self.unknown("repetition", LOST)]
        return [self.absent("repetition", "no finished step was done again without a reason")]

    def _finding(self, view: TraceView, run: list[Step]) -> FailureFinding:
        first, again = run[0], run[1]
        times = "once" if len(run) == 2 else f"{len(run) - 1} times"
        return self.present(
            "repetition",
            [view.events[step.start] for step in (again, first, *run[2:])],
            role=first.role,
            quote_of=view.events[again.start],
            reason=(
                f"{_named(first)} of event {view.events[first.start].seq} was done {times} more, "
                f"with the same outcome and nothing new in between"
            ),
        )


def _named(step: Step) -> str:
    return step.name if step.kind == "turn" else f"`{step.name}`"


def repeated_runs(view: TraceView) -> list[list[Step]]:
    """The repetitions of a trace: each a step and those that repeat it, in order."""
    twice = logged_twice(view)
    steps = [
        step
        for step in (*view.steps, *view.turns)
        if step.finished
        and step.left
        and not (step.kind == "action" and step.uses_tools)
        and not (step.kind == "tool" and step.name in view.team)  # a request, which is a turn
        and not (twice and view.events[step.start].data.get("again"))
    ]
    steps.sort(key=lambda step: step.start)
    news = _News(view, steps)
    done: dict[bytes, list[Step]] = {}
    for step in steps:
        done.setdefault(step.key, []).append(step)
    runs = [
        run for same in done.values() if len(same) > 1 for run in _without_reason(view, same, news)
    ]
    shown = {
        at
        for run in runs
        if run[0].kind != "turn"
        for step in run[1:]
        for at in range(step.start, step.end + 1)
    }
    runs = [run for run in runs if run[0].kind != "turn" or run[1].start not in shown]
    return sorted(runs, key=lambda run: run[1].start)


def _without_reason(view: TraceView, same: list[Step], news: _News) -> Iterator[list[Step]]:
    """Split the occurrences of one step into runs that nothing new parts; the repetitions."""
    run = [same[0]]
    for before, step in pairwise(same):
        reason = news.between(before, step)
        if not reason and _same_outcome(view, before, step):
            run.append(step)
            continue
        waited = not reason and not news.acted_between(before, step)
        if not waited and len(run) > 1:
            yield run
        run = [step]
    if len(run) > 1:
        yield run


def _same_outcome(view: TraceView, one: Step, other: Step) -> bool:
    if one.left == other.left:
        return True
    if one.kind == "action" or len(one.left) != 1 or len(other.left) != 1:
        return False
    results = [view.events[step.end] for step in (one, other)]
    if any(result.kind != "tool_result" for result in results):
        return False
    first, second = (" ".join(_TIMES.sub("", result.content).split()) for result in results)
    return one.failed == other.failed and first == second


class _News:
    """At which positions something happened that can be the reason to do a step again."""

    def __init__(self, view: TraceView, steps: list[Step]) -> None:
        self._everyone: list[int] = []
        self._told: dict[str, list[int]] = {role: [] for role in view.team}
        self._told_all: list[int] = []
        self._said_to_all: dict[str, list[int]] = {role: [] for role in view.team}
        self._learned: dict[str, list[int]] = {role: [] for role in view.team}
        self._starts: dict[str, list[int]] = {role: [] for role in view.team}
        self._heard: set[tuple[str, bytes]] = set()
        """Who was told what, of what is said more than once."""
        self._resets = [sign.at for sign in uncaused_resets(view)]
        self._read_events(view)
        self._read_requests(view)
        self._read_steps(steps)

    def between(self, before: Step, after: Step) -> bool:
        """True if a reason to do `after` lies between the two steps."""
        start, end, role = before.end + 1, after.start, after.role
        begun_anew = _count(self._resets, start, end) > 0
        if begun_anew and after.kind == "turn":
            return False
        if _count(self._everyone, start, end):
            return True
        if begun_anew or after.kind == "turn":
            return False
        if _count(self._told[role], start, end):
            return True
        own = _count(self._said_to_all[role], start, end)
        if _count(self._told_all, start, end) > own:
            return True
        return after.kind == "action" and _count(self._learned[role], start, end) > 0

    def acted_between(self, before: Step, after: Step) -> bool:
        """True if the role took other steps between the two."""
        return _count(self._starts[after.role], before.end + 1, after.start) > 0

    def _read_events(self, view: TraceView) -> None:
        verdicts: dict[str, object] = {}
        changed = {at for places in view.artifact_changes.values() for at in places}
        uncaused = set(self._resets)
        for at, event in enumerate(view.events):
            if at in uncaused:
                continue
            if event.kind == "message":
                self._read_message(view, event, at)
            elif event.kind == "artifact":
                if at in changed:
                    self._everyone.append(at)
            elif event.kind == "verify":
                target = str(event.data.get("target"))
                passed = event.data.get("passed")
                if target not in verdicts or verdicts[target] != passed:
                    verdicts[target] = passed
                    self._everyone.append(at)
            elif event.kind in ("approval", "resume", "fork"):
                self._everyone.append(at)
            elif event.kind in ("reset", "truncate", "action_swap") and event.role in self._told:
                self._told[event.role].append(at)

    def _read_message(self, view: TraceView, event: Event, at: int) -> None:
        """What the user says always counts; what others say, to whom has not heard it before."""
        said = view.texts[at]
        if event.role == USER:
            self._everyone.append(at)
            return
        receivers = view.receivers(event)
        if event.role in OUTSIDE and receivers is not None:  # a nudge
            for role in receivers:
                self._told[role].append(at)
            return
        again = said in view.said_again
        if receivers is None:
            if not again or (ALL, said) not in self._heard:
                self._told_all.append(at)
                if event.role in self._said_to_all:
                    self._said_to_all[event.role].append(at)
            if again:
                self._heard.add((ALL, said))
            return
        for role in receivers - {event.role}:
            if not again or ((ALL, said) not in self._heard and (role, said) not in self._heard):
                self._told[role].append(at)
        if again:
            self._heard.update((role, said) for role in (*receivers, event.role))

    def _read_requests(self, view: TraceView) -> None:
        """A new request is news to whom it is handed."""
        made: set[bytes] = set()
        for turn in view.turns:
            receiver = str(view.events[turn.start].data.get("tool"))
            if turn.key not in made and receiver in self._told:
                made.add(turn.key)
                self._told[receiver].append(turn.start)
        for told in self._told.values():
            told.sort()

    def _read_steps(self, steps: list[Step]) -> None:
        seen: set[tuple[bytes, tuple[bytes, ...]]] = set()
        for step in steps:
            self._starts[step.role].append(step.start)
            if (step.key, step.outcome) in seen:
                continue
            seen.add((step.key, step.outcome))
            self._learned[step.role].append(step.end)
            if step.kind != "action" and not step.reads:
                self._everyone.append(step.end)
        self._everyone.sort()  # ends of steps came after the events
        for learned in self._learned.values():
            learned.sort()


def _count(places: list[int], start: int, end: int) -> int:
    """How many of the sorted `places` lie in [start, end)."""
    return bisect_left(places, end) - bisect_left(places, start)
