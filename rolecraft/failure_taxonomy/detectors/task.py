"""Disobeyed task: a demand that a program can check, and that the record shows to be broken.

The demands are those of `requirements`: a header's machine-readable constraints, and what can be
read safely from the task's text. The answer is the last message of the role that the goal names,
else the message that ended the run, else the last message of a team of one; it is looked at when
the roles have ended the run, and not before. A forbidden tool is a failure as soon as it is called.

A rule sees a part of what a task says, so it never calls the mode absent. What the environment
watches itself is found by `constraints`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rolecraft.failure_taxonomy.detectors.base import Detector
from rolecraft.failure_taxonomy.requirements import Requirement, requirements
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.messages import FINISH
from rolecraft.trajectories.events import Event, FailureFinding

MODE = "task_spec"


class TaskSpec(Detector):
    """Finds `task_spec` where the task makes a demand that a program can check."""

    name = "detector.task_spec"
    modes = (MODE,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        asked = requirements(view.about)
        if not asked:
            return [self.unknown(MODE, "the task makes no demand that a program can check")]
        answer = _answer(view)
        found = [
            *self._tools(view, asked),
            *(self._answer(view, asked, answer) if answer is not None else ()),
            *self._files(view, asked),
        ]
        if found:
            return found
        if answer is None and any(one.of_answer for one in asked):
            return [self.unknown(MODE, "the trace does not say which message is the answer")]
        return [self.unknown(MODE, "what a program can check was kept; the rest was not looked at")]

    def _tools(self, view: TraceView, asked: list[Requirement]) -> Iterator[FailureFinding]:
        for one in asked:
            if one.kind != "forbidden_tools":
                continue
            names = set(map(str, one.value))
            for event in view.events:
                tool = str(event.data.get("tool"))
                if event.kind != "tool_call" or event.role not in view.team:
                    continue
                if tool in names or "*" in names:
                    reason = f"`{tool}` was called, against {one.name!r}"
                    yield self.present(
                        MODE, [event], role=event.role, quote_of=event, reason=reason
                    )
                    break

    def _answer(
        self, view: TraceView, asked: list[Requirement], answer: Event
    ) -> Iterator[FailureFinding]:
        for one in asked:
            wrong = one.broken_by(answer.content) if one.of_answer else ""
            if wrong:
                named = [answer, *([view.stop] if view.stop is not None else [])]
                reason = f"{wrong} ({one.name!r})"
                yield self.present(MODE, named, role=answer.role, quote_of=answer, reason=reason)

    def _files(self, view: TraceView, asked: list[Requirement]) -> Iterator[FailureFinding]:
        if view.stop is None or not view.ended_by_team or not view.whole:
            return
        last = view.last_deed
        for one in asked:
            missing = (
                [n for n in map(str, one.value) if n not in view.artifact_changes]
                if (one.kind == "required_files" and view.records("artifact"))
                else []
            )
            if missing and last is not None:
                listed = ", ".join(f"`{name}`" for name in missing)
                reason = f"the task demands {listed}, which nobody made ({one.name!r})"
                yield self.present(
                    MODE, [last, view.stop], role=last.role, quote_of=last, reason=reason
                )


def _answer(view: TraceView) -> Event | None:
    """The message that is the team's answer; None where nothing says which one it is."""
    if view.stop is None or not view.ended_by_team or not view.whole:
        return None
    who = view.goal.answer
    by = view.team if who is True or not who else {str(who)}
    said = [event for event in view.events if event.kind == "message" and event.role in by]
    if not said or not said[-1].content.strip():
        return None
    if who or len(view.team) == 1 or said[-1].data.get("cause_by") == FINISH:
        return said[-1]
    return None
