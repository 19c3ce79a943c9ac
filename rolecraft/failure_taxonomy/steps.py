"""Steps: what a role did, with what it was given and what came of it.

A step is an action, a tool call, or a piece of code in a message that was executed. It is found
from typed events alone: an `action` with what its role leaves until its next action, a
`tool_call` with its `tool_result`, a `tool_result` that itself names `arguments` with the message
that caused it (how importers write executed code).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rolecraft.failure_taxonomy.view import TraceView, fingerprint, sounds_like_reading
from rolecraft.trajectories.events import Event


@dataclass(slots=True, eq=False)
class Step:
    """One step. `start` and `end` are positions of its first and last event."""

    role: str
    kind: Literal["action", "tool", "code"]
    name: str
    key: bytes
    """Equal for steps of one role that do the same with the same."""
    start: int
    end: int
    left: list[bytes] = field(default_factory=list)
    """What came of it: messages, results, artifacts; empty while nothing has."""
    failed: bool = False
    finished: bool = False
    uses_tools: bool = False
    nested: bool = False
    """A tool call inside an action."""
    reads: bool = False
    """It only looks, and changes nothing outside the role."""

    @property
    def outcome(self) -> tuple[bytes, ...]:
        return tuple(self.left)


def _canonical(value: Any) -> str:
    """Arguments as text, the same for another order of keys and other white space in strings."""
    if value is None or value == {}:
        return ""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def find_steps(view: TraceView) -> list[Step]:
    """All steps of the team, in the order in which they start."""
    steps: list[Step] = []
    acting: dict[str, Step] = {}
    calls: dict[int, Step] = {}
    for at, event in enumerate(view.events):
        if event.kind == "action":
            acting[event.role] = step = _action(event, at)
            steps.append(step)
        elif event.kind == "tool_call":
            around = acting.get(event.role)
            calls[event.seq] = step = _tool(event, at, nested=around is not None)
            steps.append(step)
            if around is not None:
                around.uses_tools, around.end = True, at
        elif event.kind == "tool_result":
            step_or_none = calls.get(event.cause) if event.cause is not None else None
            if step_or_none is None:
                executed = _executed(view, event, at)
                if executed is not None:
                    steps.append(executed)
            else:
                _finish(view, step_or_none, at)
                around = acting.get(step_or_none.role)
                if around is not None:
                    around.end = at
        elif event.role in acting:
            _leave(view, acting[event.role], at)
    steps.sort(key=lambda step: step.start)
    return [step for step in steps if step.role in view.team]


def _action(event: Event, at: int) -> Step:
    name = str(event.data.get("action", ""))
    key = fingerprint("action", event.role, name, _canonical(event.data.get("fields")))
    return Step(event.role, "action", name, key, at, at)


def _tool(event: Event, at: int, *, nested: bool) -> Step:
    name = str(event.data.get("tool", ""))
    key = fingerprint("tool", event.role, name, _canonical(event.data.get("arguments")))
    reads = event.data.get("read_only")
    return Step(
        event.role,
        "tool",
        name,
        key,
        at,
        at,
        nested=nested,
        reads=reads if isinstance(reads, bool) else sounds_like_reading(name),
    )


def _executed(view: TraceView, result: Event, at: int) -> Step | None:
    """Code of a message that somebody executed: the step of the message's author."""
    arguments = result.data.get("arguments")
    author = view.by_seq.get(result.cause) if result.cause is not None else None
    if arguments is None or author is None:
        return None
    name = str(result.data.get("tool", ""))
    key = fingerprint("code", author.role, name, _canonical(arguments))
    step = Step(author.role, "code", name, key, view.position[author.seq], at)
    _finish(view, step, at)
    return step


def _finish(view: TraceView, step: Step, at: int) -> None:
    step.end, step.finished = at, True
    step.failed = view.events[at].data.get("ok") is False
    step.left.append(b"result" + view.texts[at])


def _leave(view: TraceView, step: Step, at: int) -> None:
    """Note what an action leaves."""
    event = view.events[at]
    if event.kind in ("thought", "model_call"):
        step.end = at
    elif event.kind in ("message", "error"):
        _note(step, at, event.kind.encode() + view.texts[at])
        step.failed = step.failed or event.kind == "error"
    elif event.kind == "artifact" and event.artifact is not None:
        _note(step, at, fingerprint("artifact", event.artifact.name, event.artifact.sha256))
    elif event.kind == "verify":
        found = str(event.data.get("target")), str(event.data.get("passed"))
        _note(step, at, fingerprint("verify", *found))


def _note(step: Step, at: int, left: bytes) -> None:
    step.left.append(left)
    step.finished, step.end = True, at


def outermost(steps: Sequence[Step]) -> list[Step]:
    """The steps without the tool calls inside actions."""
    return [step for step in steps if not step.nested]
