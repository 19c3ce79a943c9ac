"""What a trajectory says, step by step, for people: shared by the web page and the terminal.

Traces that were imported from other tools have no header and odd data, so nothing here relies on
either: any JSON may stand where something else is expected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.failure_taxonomy import goals
from rolecraft.messages import ALL, NOBODY, SELF, USER
from rolecraft.trajectories import Event, FailureFinding, Trajectory, Usage
from rolecraft.trajectories.in_words import money


@dataclass(frozen=True, slots=True)
class Step:
    """One event in words.

    `label` says what happened (`says`, `starts Write`); `text` is its content. `receivers` are
    the roles that get a message, resolved from its address and from who watches it.
    """

    seq: int
    time: int
    kind: str
    role: str
    label: str
    text: str
    receivers: tuple[str, ...] = ()
    minor: bool = False
    """True for what the steps around it say too: that an action ended, as it should."""


def steps(trajectory: Trajectory) -> list[Step]:
    """Every event as a step, in order."""
    routes = _Routes(trajectory)
    return [_step(event, routes) for event in trajectory.events]


def participants(all_steps: Iterable[Step]) -> list[str]:
    """Everyone who sends or receives, the user first, then in order of first appearance."""
    seen: dict[str, None] = {}
    for step in all_steps:
        if step.role:
            seen.setdefault(step.role)
        for name in step.receivers:
            seen.setdefault(name)
    return sorted(seen, key=lambda name: name != USER)


def described_roles(trajectory: Trajectory) -> list[dict[str, Any]]:
    """What the header says of each role; empty if it says nothing that can be understood."""
    roles = trajectory.about.get("roles")
    return [role for role in roles if isinstance(role, dict)] if isinstance(roles, list) else []


def texts(value: Any) -> list[str]:
    """What should be a list of strings, whatever it is: nothing for null, one text if no list."""
    if value is None:
        return []
    return [str(item) for item in (value if isinstance(value, (list, tuple)) else [value])]


def findings_by_event(findings: Iterable[FailureFinding]) -> dict[int, list[FailureFinding]]:
    """The failures that are present, under the number of each event they name."""
    placed: dict[int, list[FailureFinding]] = {}
    for finding in findings:
        if finding.verdict == "present":
            for seq in finding.events:
                placed.setdefault(seq, []).append(finding)
    return placed


def task_of(trajectory: Trajectory) -> str:
    """The task's prompt: from the header, or what the user said first; may be empty."""
    if prompt := goals.task_of(trajectory.about):
        return prompt
    first = next(trajectory.of("message"), None)
    return first.content if first is not None and first.role == USER else ""


class _Routes:
    """Who gets what: addresses of roles, and what each one watches, from the header."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.name_of: dict[str, str] = {}
        self.watch: dict[str, frozenset[str]] = {}
        for role in described_roles(trajectory):
            if isinstance(role.get("name"), str):
                self.name_of.setdefault(str(role.get("class")), role["name"])
                self.watch[role["name"]] = frozenset(texts(role.get("watch")))
        # A role's first event after it read something names what it read as its cause.
        self.took_up: dict[int, list[str]] = {}
        for event in trajectory.events:
            if event.cause is not None and event.kind == "action":
                self.took_up.setdefault(event.cause, []).append(event.role)

    def receivers(self, event: Event) -> tuple[str, ...]:
        named = [self.name_of.get(to, to) for to in event.to if to not in (ALL, NOBODY, SELF)]
        if ALL in event.to:
            cause_by = str(event.data.get("cause_by"))
            named += [name for name, watch in self.watch.items() if cause_by in watch]
            named += self.took_up.get(event.seq, ())
        return tuple(dict.fromkeys(name for name in named if name != event.role))


def _step(event: Event, routes: _Routes) -> Step:
    label, text = _words(event)
    receivers: tuple[str, ...] = ()
    if event.kind == "message":
        receivers = routes.receivers(event)
        if not receivers and ALL in event.to and routes.watch:
            label = "says (no other role listens)"
        elif not receivers and ALL in event.to:
            label = "says to everyone"
        elif NOBODY in event.to:
            label = "notes"
        elif SELF in event.to and not receivers:
            label = "says to itself"
    minor = event.kind == "action_result" and not event.data.get("cancelled")
    return Step(event.seq, event.time, event.kind, event.role, label, text, receivers, minor)


def _words(event: Event) -> tuple[str, str]:
    """What happened, and the text that belongs to it."""
    data, content = event.data, event.content
    match event.kind:
        case "message":
            return "says", content
        case "thought":
            return "thinks", content
        case "model_call":
            return f"asks {data.get('model', 'a model')}{_cost(event.usage)}", content
        case "action":
            return f"starts {data.get('action', 'an action')}", _pairs(data.get("fields"))
        case "action_result":
            return "was cancelled" if data.get("cancelled") else "is done", ""
        case "tool_call":
            return f"calls {data.get('tool', 'a tool')}", _pairs(data.get("arguments"))
        case "tool_result":
            return "gets" if data.get("ok", True) else "gets an error", content
        case "artifact":
            return f"changes {event.artifact.name if event.artifact else 'something'}", content
        case "verify":
            passed = data.get("passed")
            verdict = "passed" if passed is True else "failed" if passed is False else "unknown"
            return f"verifies {data.get('target', 'something')}: {verdict}", content
        case "signal":
            unit = f" {data['unit']}" if data.get("unit") else ""
            return "measured", f"{data.get('name')} = {_number(data.get('value'))}{unit}"
        case "action_swap":
            return "gets new actions", ", ".join(texts(data.get("actions")))
        case "note":
            about = data.get("role")
            return f"an observer notes ({data.get('do', 'note')})", (
                f"{content} (about {about})" if about else content
            )
        case "limit":
            return f"limit reached: {data.get('limit', '')}", content
        case "error":
            return f"error: {data.get('type', '')}", content
        case "approval":
            granted = data.get("granted")
            said = "waits for permission"
            if granted is not None:
                said = "is permitted" if granted is True else "is refused"
            return f"{data.get('action', 'an action')} {said}", content
        case "start":
            rounds = data.get("rounds")
            unit = "round" if rounds == 1 else "rounds"
            return "start" if rounds is None else f"start, for {_number(rounds)} {unit}", content
        case "resume":
            after = data.get("after")
            return "goes on" if after is None else f"goes on after: {after}", content
        case "fork":
            changed = ", ".join(texts(data.get("changed"))) or "nothing"
            origin = f"{data.get('trajectory')} at event {data.get('at')}"
            return f"branches off {origin}, changed: {changed}", content
        case "stop":
            return f"stop: {data.get('reason', 'unknown')}", content
        case _:
            return event.kind.replace("_", " "), content or _pairs(data)


def _cost(usage: Usage | None) -> str:
    if usage is None or not (usage.prompt_tokens or usage.completion_tokens):
        return ""
    price = f", {money(usage.usd)}" if usage.usd else ""
    return f" ({usage.prompt_tokens} + {usage.completion_tokens} tokens{price})"


def _pairs(data: Any) -> str:
    if not isinstance(data, dict):
        return "" if data is None else str(data)
    return ", ".join(
        f"{name} = {value if isinstance(value, str) else json.dumps(value, default=str)}"
        for name, value in data.items()
    )


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def ordered(names: Iterable[str], first: Sequence[str]) -> list[str]:
    """`names` without repetition, those of `first` in its order before the others."""
    unique = list(dict.fromkeys(names))
    return [n for n in first if n in unique] + [n for n in unique if n not in first]


def percent(share: float) -> str:
    """A share in [0, 1] in whole percent; 0% and 100% are said only where they are exact."""
    text = f"{share:.0%}"
    if text == "100%" and share < 1:
        return ">99%"
    return "<1%" if text == "0%" and share > 0 else text
