"""MetaGPT logs, in the two forms that its runs leave.

The console (loguru): `… | metagpt.roles.role:_act:391 - Alice(SimpleCoder): to do
SimpleWriteCode(SimpleWriteCode)` begins an `action` of Alice. What is printed until the next line
of the log is what the action wrote: a message of hers, with the action as its cause. Errors
become `error` events; costs, investments and the like belong to the header.

The communication log (`=== MetaGPT Agent Communication Log …`): each `FROM:`/`TO:`/`ACTION:`/
`CONTENT:` block and each speaker of a `NEW MESSAGES:` block is one message. In MetaGPT a role
speaks by acting only, so each is preceded by an `action`; where the log does not name it, it is
`_act`, the method that ran. What `Human` says is the task. `=== Communication Log Ended` does not
say why the run ended, and so is no `stop`.
"""

from __future__ import annotations

import re
from typing import Any

from rolecraft.failure_taxonomy.formats.logs._log import Log, blocks
from rolecraft.failure_taxonomy.formats.logs._loguru import HEAD
from rolecraft.messages import ALL, USER

NAME = "metagpt"
MARKS = (
    re.compile(
        r"^=== MetaGPT Agent Communication Log|\| metagpt\.[\w.]+:\w+:\d+ ?- "
        r"|:_act:\d+ - \w+\([\w ]+\):",
        re.MULTILINE,
    ),
)

_ACT = re.compile(r"(?P<name>[^():]{1,80})\((?P<profile>[^()]*)\): to do (?P<todo>.+)")
_COMMUNICATION = re.compile(r"^=== MetaGPT Agent Communication Log", re.MULTILINE)
_BLOCK = re.compile(
    r"[ \t]*\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\] "
    r"(?:FROM: (?P<from>.*?) TO: (?P<to>.*)|(?P<new>NEW MESSAGES):.*)"
)
_RULE = re.compile(r"-{70,}\s*$")
_SPEAKER = re.compile(r"(?P<name>[A-Za-z_][\w ]{0,60}?):[ ]?(?P<rest>.*)")
_END = re.compile(r"=== Communication Log Ended")
_ACTION = re.compile(r"ACTION: ?(?P<action>.*)")
_CONTENT = re.compile(r"CONTENT: ?(?P<rest>.*)")


def segment(text: str) -> Log:
    """The events of a MetaGPT log of either form."""
    return _communication(text) if _COMMUNICATION.search(text) else _console(text)


# --- the console ----------------------------------------------------------------------------------


def _console(text: str) -> Log:
    log = Log(text, {"action", "error", "message"})
    found = blocks(log, HEAD)
    for first, end, match in found:
        act = _ACT.fullmatch(match["text"].strip()) if match["function"] == "_act" else None
        if act:
            _acted(log, first, end, act)
        elif match["level"] in ("ERROR", "CRITICAL"):
            content = _after(log, first, end, match["text"])
            log.add("error", "", first, end, content, data={"type": match["module"]})
        else:
            log.skip("header", first, first + 1)
            _printed(log, first + 1, end)
    if log.events:
        log.skip_before(found[0][0])
    return log


def _acted(log: Log, first: int, end: int, act: re.Match[str]) -> None:
    name, profile = act["name"].strip(), act["profile"].strip()
    todo = act["todo"].strip()
    log.describe(name, profile=profile)
    data = {"action": re.sub(r"\(.*\)$", "", todo) or todo}
    event = log.add("action", name, first, first + 1, "", data=data)
    body = log.lines.text(first + 1, end)
    if body.strip():
        log.add("message", name, first + 1, end, body, cause=event)


def _printed(log: Log, first: int, end: int) -> None:
    """Text that follows another line of the log: of the role that acted last, if one has."""
    if not log.lines.text(first, end).strip():
        return
    act = next((event for event in reversed(log.events) if event.kind == "action"), None)
    if act is None:
        log.skip("header", first, end)
    else:
        log.add("message", act.role, first, end, cause=act)


def _after(log: Log, first: int, end: int, head: str) -> str:
    return "\n".join([head, log.lines.text(first + 1, end)]).strip("\n")


# --- the communication log ------------------------------------------------------------------------


def _communication(text: str) -> Log:
    log = Log(text, {"action", "message"})
    lines = log.lines.lines
    for first, end, match in blocks(log, _BLOCK):
        stop = next((at for at in range(first + 1, end) if _END.match(lines[at])), end)
        if match["new"]:
            _new_messages(log, first, stop)
        else:
            _sent(log, first, stop, match)
    for at, line in enumerate(lines):
        if line.startswith("=== "):
            log.skip("header", at, at + 1)
    return log


def _sent(log: Log, first: int, end: int, match: re.Match[str]) -> None:
    """A `FROM … TO … ACTION … CONTENT` block."""
    end = _without_rule(log, first, end)
    action, at, rest = "", first + 1, ""
    while at < end:
        line = log.lines.lines[at].rstrip("\r")
        at += 1
        if found := _CONTENT.fullmatch(line):
            rest = found["rest"]
            break
        if found := _ACTION.fullmatch(line):
            action = found["action"].strip()
    content = "\n".join([*([rest] if rest else []), log.lines.text(at, end)])
    to = list(re.findall(r"[^{}'\", ]+", match["to"])) or [ALL]
    _message(log, match["from"].strip(), first, end, content, action=action, to=to)


def _new_messages(log: Log, first: int, end: int) -> None:
    """The messages of a `NEW MESSAGES` block, each between its speaker's line and a rule."""
    lines = log.lines.lines
    log.skip("header", first, first + 1)
    at = first + 1
    while at < end:
        found = _SPEAKER.fullmatch(lines[at].rstrip("\r"))
        if not found:
            if _RULE.match(lines[at]):
                log.skip("header", at, at + 1)
            at += 1
            continue
        stop = next((n for n in range(at + 1, end) if _RULE.match(lines[n])), end)
        content = "\n".join(
            [*([found["rest"]] if found["rest"] else []), log.lines.text(at + 1, stop)]
        )
        _message(log, found["name"], at, stop, content)
        at = stop


def _message(
    log: Log,
    speaker: str,
    first: int,
    end: int,
    content: str,
    *,
    action: str = "",
    to: list[str] | None = None,
) -> None:
    while end > first + 1 and not log.lines.lines[end - 1].strip():
        end -= 1
    data: dict[str, Any] = {}
    if speaker == "Human" or action.endswith("UserRequirement"):
        log.task = log.task or content.strip()
        log.add("message", USER, first, end, content, to=to or (ALL,), data={"speaker": speaker})
        return
    if action:
        data["action_path"] = action
    step = log.add(
        "action", speaker, first, first, "", data={"action": action.rsplit(".", 1)[-1] or "_act"}
    )
    log.describe(speaker)
    log.add("message", speaker, first, end, content, to=to or (ALL,), data=data, cause=step)


def _without_rule(log: Log, first: int, end: int) -> int:
    """The end of a block without the rule below it, which belongs to the header."""
    at = end
    while at > first + 1 and not log.lines.lines[at - 1].strip():
        at -= 1
    if at > first + 1 and _RULE.match(log.lines.lines[at - 1]):
        log.skip("header", at - 1, at)
        at -= 1
    return at
