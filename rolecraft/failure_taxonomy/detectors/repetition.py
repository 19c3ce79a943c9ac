"""Step repetition: a finished step is done again and nothing new calls for it.

Two steps are the same if role, action or tool, arguments and outcome are (white space apart).
The second is a repetition unless something happened in between that could be its reason: the
world changed (an artifact, a new kind of verification result, a tool that may write, a word from
outside the team), or the role learned something (a message it had not heard before, and, for
actions, a new result of its own). In a loop of several steps everything is new in the first lap
and nothing afterwards, so loops of any length show without a search for cycles.

Two things are not counted. A step that failed may be tried again once. And a step repeated until
its outcome changes, with nothing else in between, was waiting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from rolecraft.failure_taxonomy.detectors.base import LOST, Detector
from rolecraft.failure_taxonomy.steps import Step
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.messages import ALL, USER
from rolecraft.trajectories.events import Event, FailureFinding


class Repetition(Detector):
    """Decides `repetition` on traces that record actions or tool calls.

    On chat logs it sees executed code only: it can find a repetition there, not rule one out.
    """

    name = "detector.repetition"
    modes = ("repetition",)

    def look(self, view: TraceView) -> list[FailureFinding]:
        found = [self._finding(view, run) for run in repeated_runs(view)]
        if found:
            return sorted(found, key=lambda finding: finding.events)
        if not view.records("action", "tool_call"):
            return [self.unknown("repetition", "the format shows executed code only, no actions")]
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
                f"`{first.name}` of event {view.events[first.start].seq} was done {times} more, "
                f"with the same outcome and nothing new in between"
            ),
        )


def repeated_runs(view: TraceView) -> list[list[Step]]:
    """The repetitions of a trace: each a step and those that repeat it, in order."""
    steps = [
        step
        for step in view.steps
        if step.finished and step.left and not (step.kind == "action" and step.uses_tools)
    ]
    news = _News(view, steps)
    done: dict[bytes, list[Step]] = {}
    for step in steps:
        done.setdefault(step.key, []).append(step)
    runs = [run for same in done.values() if len(same) > 1 for run in _without_reason(same, news)]
    return sorted(runs, key=lambda run: run[1].start)


def _without_reason(same: list[Step], news: _News) -> Iterator[list[Step]]:
    """Split the occurrences of one step into runs that nothing new parts; the repetitions."""
    run = [same[0]]
    for before, step in pairwise(same):
        reason = news.between(before, step)
        if step.outcome == before.outcome and not reason:
            run.append(step)
            continue
        waited = not reason and not news.acted_between(before, step)
        if not waited and _counts(run):
            yield run
        run = [step]
    if _counts(run):
        yield run


def _counts(run: list[Step]) -> bool:
    return len(run) > (2 if run[0].failed else 1)


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
        self._read_events(view)
        self._read_steps(steps)

    def between(self, before: Step, after: Step) -> bool:
        """True if a reason to do `after` lies between the two steps."""
        start, end, role = before.end + 1, after.start, after.role
        if _count(self._everyone, start, end) or _count(self._told[role], start, end):
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
        for at, event in enumerate(view.events):
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
        if receivers is None:
            if (ALL, said) not in self._heard:
                self._told_all.append(at)
                if event.role in self._said_to_all:
                    self._said_to_all[event.role].append(at)
            self._heard.add((ALL, said))
            return
        for role in receivers - {event.role}:
            if (ALL, said) not in self._heard and (role, said) not in self._heard:
                self._told[role].append(at)
            self._heard.add((role, said))
        self._heard.add((event.role, said))

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
