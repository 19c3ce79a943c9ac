"""Steps: what a role did, with what it was given and what came of it.

A step is an action, a tool call, or a piece of code in a message that was executed. It is found
from typed events alone: an `action` with what its role leaves until its next action, a
`tool_call` with its `tool_result`, a `tool_result` that itself names `arguments` with the message
that caused it (how importers write executed code). A call whose result is not in the log, because
the format has none or an importer says `done`, is finished with an outcome that nobody knows.
What a role says is no step here; see `turns` for logs in which nothing else is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from rolecraft.failure_taxonomy.view import (
    TraceView,
    fingerprint,
    has_any,
    sounds_like_reading,
    words_of,
)
from rolecraft.trajectories.events import Event

_VERBS = (
    "edit write patch create insert replace install uninstall delete remove save update commit "
    "apply append modify upload post put send move rename"
)
_CHANGING = tuple(form for verb in _VERBS.split() for form in (verb, f"_{verb}"))
"""How the names of functions begin that change something."""
_PART_OF_NAME = re.compile(r"\w+")
_SHELL = re.compile(
    r"\b(sed -i|git (apply|commit|checkout|reset|stash)|pip3? install|conda|apt(-get)? install|"
    r"npm (i|install)|mkdir|touch|mv|cp|rm|tee)\b|"
    r"[^->=]>>?\s*[\w./~-]+\.\w+|\bopen\([^)]*['\"][wax]b?\+?['\"]"
)
_SHELL_HINTS = ("sed ", "git ", "install", "conda", "mkdir", "touch ", "mv ", "cp ", "rm ", "tee ")
_CHANGING_WORDS = (
    "add append apply book buy cancel click commit create delete drop edit editor execute fill "
    "insert install make modify move order patch pay play post press put remove rename replace "
    "save schedule select send set skip submit transfer type update upload write"
)
_CHANGES = frozenset(_CHANGING_WORDS.split())
"""Words of a tool's name that speak of changing something."""
_INTERPRETERS = frozenset(
    "bash cmd code console interpreter ipython jupyter python shell sh terminal".split()  # noqa: SIM905
)
_EDITORS = frozenset(
    "author coder developer editor engineer fixer programmer refactorer writer".split()  # noqa: SIM905
)


@dataclass(slots=True, eq=False)
class Step:
    """One step. `start` and `end` are positions of its first and last event."""

    role: str
    kind: Literal["action", "tool", "code", "turn"]
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


NOT_RECORDED = b"not recorded"
"""The outcome of a step that ended in a log which does not show how."""


@lru_cache(maxsize=4096)
def _word_set(name: str) -> frozenset[str]:
    return frozenset(words_of(name))


@lru_cache(maxsize=4096)
def _is_changing(called: str) -> bool:
    """True for `editor._run`, `patch_file`, and what else begins with such a verb."""
    return any(part.startswith(_CHANGING) for part in _PART_OF_NAME.findall(called))


def may_change(code: str, role: str) -> bool:
    """True for code that looks as if it changes something, or whose author's work is changing.

    For logs of others, in which every look at something is code that an interpreter runs.
    """
    small = code.lower()
    for before in small.split("(")[:-1]:
        called = before[-60:].rsplit(None, 1)[-1:]
        if called and _is_changing(called[0]):
            return True
    if (">" in small or "open(" in small or has_any(small, _SHELL_HINTS)) and _SHELL.search(small):
        return True
    return not _EDITORS.isdisjoint(_word_set(role))


def _call_may_change(tool: str, arguments: str, role: str) -> bool:
    words = _word_set(tool)
    if not _INTERPRETERS.isdisjoint(words):
        return may_change(arguments, role)
    return not _CHANGES.isdisjoint(words)


def find_steps(view: TraceView) -> list[Step]:
    """All steps of the team, in the order in which they start."""
    steps: list[Step] = []
    acting: dict[str, Step] = {}
    calls: dict[int, Step] = {}
    returns = view.records("tool_result")
    for at, event in enumerate(view.events):
        if event.kind == "action":
            acting[event.role] = step = _action(event, at)
            steps.append(step)
        elif event.kind == "tool_call":
            around = acting.get(event.role)
            calls[event.seq] = step = _tool(event, at, nested=around is not None, ours=view.ours)
            if event.data.get("done") is True or not returns:
                step.finished = True
                step.left.append(NOT_RECORDED)
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


def _tool(event: Event, at: int, *, nested: bool, ours: bool) -> Step:
    name = str(event.data.get("tool", ""))
    given = _canonical(event.data.get("arguments"))
    key = fingerprint("tool", event.role, name, given)
    reads = event.data.get("read_only")
    if not isinstance(reads, bool):
        reads = sounds_like_reading(name) or (
            not ours and not _call_may_change(name, given, event.role)
        )
    return Step(
        event.role,
        "tool",
        name,
        key,
        at,
        at,
        nested=nested,
        reads=reads,
    )


def _executed(view: TraceView, result: Event, at: int) -> Step | None:
    """Code of a message that somebody executed: the step of the message's author."""
    arguments = result.data.get("arguments")
    author = view.by_seq.get(result.cause) if result.cause is not None else None
    if arguments is None or author is None:
        return None
    name = str(result.data.get("tool", ""))
    given = _canonical(arguments)
    key = fingerprint("code", author.role, name, given)
    step = Step(author.role, "code", name, key, view.position[author.seq], at)
    step.reads = not view.ours and not may_change(given, author.role)
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
