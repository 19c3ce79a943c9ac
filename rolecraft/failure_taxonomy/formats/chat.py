"""What the turns of AutoGen-like chats have in common: executed code, and farewells.

- A turn that begins `exitcode: N (…)` reports that code was executed: a `tool_result` with `ok`,
  `exitcode`, and as `cause` and `arguments` the turn before it and its fenced code.
- AG2's maths proxy (`MathUserProxyAgent`) reports an execution without such a line: what it
  answers to a turn with fenced code is the result, unless it only asks to go on.
- A message whose last line is `TERMINATE` declares the work finished: `data["farewell"]`.
"""

from __future__ import annotations

import re
from typing import Any

from rolecraft.trajectories.events import Event

_EXECUTED = re.compile(r"exitcode: (-?\d+)\b")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_GO_ON = "Continue. Please keep solving"


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
