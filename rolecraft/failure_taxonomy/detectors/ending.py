"""Premature termination: the roles end the work while something is known to be open.

Open is: an artifact, or an answer, that the header's goal asks for and nobody made; a check that
failed and after which nothing was changed; actions of a list that a role swapped in and did not
begin; a direct question to a role that did nothing any more. A run that a limit, an error or
the caller cut off was not ended by its roles.
"""

from __future__ import annotations

from collections.abc import Iterator

from rolecraft.failure_taxonomy.detectors.base import LOST, NO_STOP, Detector
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.events import Event, FailureFinding

MODE = "premature_end"


class PrematureEnd(Detector):
    """Decides `premature_end` on traces with a `stop` event and a goal that can be checked."""

    name = "detector.premature_end"
    modes = (MODE,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        if view.stop is None:
            return [self.unknown(MODE, NO_STOP)]
        if not view.whole:
            return [self.unknown(MODE, LOST)]
        if not view.ended_by_team:
            return [self.absent(MODE, f"`{view.stop_reason}` ended the run, not its roles")]
        last = view.last_deed
        found = [
            self.present(
                MODE,
                [last or view.stop, *([evidence] if evidence else []), view.stop],
                role=last.role if last else "",
                quote_of=evidence or last or view.stop,
                reason=reason,
            )
            for evidence, reason in (
                *_missing_artifacts(view),
                *_missing_answer(view),
                *_failed_checks(view),
                *_actions_not_begun(view),
                *_unanswered(view),
            )
        ]
        if found:
            return found
        goal = view.goal
        if not (goal.artifacts or goal.answer or goal.verify):
            return [self.unknown(MODE, "the header has no goal that could still be open")]
        return [self.absent(MODE, "nothing that the goal asks for was open at the end")]


def _missing_artifacts(view: TraceView) -> Iterator[tuple[Event | None, str]]:
    missing = [name for name in view.goal.artifacts if name not in view.artifact_changes]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        yield None, f"the goal asks for {listed}, which nobody made"


def _missing_answer(view: TraceView) -> Iterator[tuple[Event | None, str]]:
    who = view.goal.answer
    if not who:
        return
    by = view.team if who is True else {who}
    if not any(event.kind == "message" and event.role in by for event in view.events):
        yield None, f"`{who}` gave no answer" if who is not True else "nobody gave an answer"


def _failed_checks(view: TraceView) -> Iterator[tuple[Event | None, str]]:
    """Checks whose last word was no, and after which no artifact changed."""
    last: dict[str, int] = {}
    for at in view.checks:
        last[str(view.events[at].data.get("target"))] = at
    changed = max((places[-1] for places in view.artifact_changes.values()), default=-1)
    for target, at in last.items():
        if view.events[at].data.get("passed") is False and changed < at:
            yield view.events[at], f"the last check of `{target}` failed"


def _actions_not_begun(view: TraceView) -> Iterator[tuple[Event | None, str]]:
    swapped: dict[str, tuple[Event, list[str]]] = {}
    for event in view.events:
        if event.kind == "action_swap":
            names = event.data.get("actions")
            swapped[event.role] = event, list(map(str, names)) if isinstance(names, list) else []
        elif event.kind == "action" and event.role in swapped:
            left, done = swapped[event.role][1], str(event.data.get("action"))
            if done in left:
                left.remove(done)
    for role, (event, left) in swapped.items():
        if left:
            yield event, f"`{role}` did not begin {', '.join(f'`{name}`' for name in left)}"


def _unanswered(view: TraceView) -> Iterator[tuple[Event | None, str]]:
    acted = {event.role: at for at, event in enumerate(view.events) if event.kind != "signal"}
    for at, event in enumerate(view.events):
        if event.kind != "message" or event.role not in view.team:
            continue
        if not event.content.rstrip().endswith(("?", "？")):
            continue
        for role in sorted((view.receivers(event) or frozenset()) - {event.role}):
            if acted.get(role, -1) < at:
                yield event, f"`{role}` was asked something and did nothing any more"
