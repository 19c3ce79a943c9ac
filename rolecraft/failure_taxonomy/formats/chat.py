"""What the turns of AutoGen-like chats have in common: stages, executed code, and farewells.

- A speaker may be a stage of one: `Orchestrator (thought)`, `Orchestrator (-> WebSurfer)`.
- A turn that begins `exitcode: N (…)` reports that code was executed: a `tool_result` with `ok`,
  `exitcode`, and as `cause` and `arguments` the turn before it and its fenced code.
- AG2's maths proxy (`MathUserProxyAgent`) reports an execution without such a line: what it
  answers to a turn with fenced code is the result, unless it only asks to go on.
- A message whose last line is `TERMINATE` declares the work finished: `data["farewell"]`.
"""

from __future__ import annotations

import re
from typing import Any

from rolecraft.failure_taxonomy.formats._said import as_text
from rolecraft.messages import ALL
from rolecraft.trajectories.events import Event

_EXECUTED = re.compile(r"exitcode: (-?\d+)\b")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_GO_ON = "Continue. Please keep solving"
_STAGE = re.compile(
    r"(?P<name>.+?)\s*\((?P<note>thought|termination condition|-> ?(?P<to>[^)]+))\)"
)
_OF_A_TURN = frozenset({"content", "name", "role"})


def says_farewell(content: str) -> bool:
    """True for a message whose last line is the word that ends AutoGen's chats."""
    return content.rstrip().rsplit("\n", 1)[-1].strip(" *`.") == "TERMINATE"


def code_blocks(content: str) -> list[str]:
    """The texts of the fenced blocks."""
    return _FENCED.findall(content)


def execution(content: str, speaker: str, before: Event | None) -> Event | None:
    """The turn as the result of executed code; None if it is none."""
    blocks = code_blocks(before.content) if before is not None else []
    executed = _EXECUTED.match(content)
    data: dict[str, Any] = {"tool": speaker}
    if executed:
        data |= {"ok": executed[1] == "0", "exitcode": int(executed[1])}
    elif blocks and _is_maths_proxy(speaker) and not content.startswith(_GO_ON):
        data["ok"] = not re.search(r"^Error: ", content, re.MULTILINE)
    else:
        return None
    event = Event("tool_result", role=speaker, content=content, data=data)
    if blocks and before is not None:
        event.cause = before.seq
        data["arguments"] = {"code": blocks}
    return event


def _is_maths_proxy(speaker: str) -> bool:
    name = speaker.lower()
    return "math" in name and "proxy" in name


def turn_event(turn: Any, before: list[Event]) -> tuple[Event, str]:
    """One turn of a Who&When log, or of one that is like it, and what was odd about it.

    The speaker is `name` or `role`, and may say what the turn is: `Orchestrator (thought)`,
    `Orchestrator (-> WebSurfer)`. Other fields of the turn are in `data["labels"]`.
    """
    if not isinstance(turn, dict):
        return Event("message", content=as_text(turn), to=(ALL,)), "it is no object"
    content, flaw = as_text(turn.get("content")), ""
    if not isinstance(turn.get("content"), str):
        flaw = "its content is no text and is kept as JSON"
    written = turn.get("name") or turn.get("role") or ""
    speaker = written if isinstance(written, str) else as_text(written)
    if not speaker:
        flaw = "it names no speaker"
    data: dict[str, Any] = {}
    if turn.get("name") and turn.get("role"):
        data["as"] = turn["role"]
    others = {key: value for key, value in turn.items() if key not in _OF_A_TURN}
    if others:
        data["labels"] = others
    executed = execution(content, speaker, before[-1] if before else None)
    if executed is not None:
        executed.data = data | executed.data
        return executed, flaw
    stage = _STAGE.fullmatch(speaker)
    if stage is None:
        event = Event("message", role=speaker, content=content, to=(ALL,), data=data)
    else:
        data["speaker"] = speaker
        kind: Any = "thought" if stage["note"] == "thought" else "message"
        to = stage["to"] or ALL
        event = Event(kind, role=stage["name"], content=content, to=(to,), data=data)
    if says_farewell(content):
        data["farewell"] = True
    return event, flaw
