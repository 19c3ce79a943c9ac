"""What AG2 (AutoGen 0.2) prints while agents chat.

- `desk (to clerk):` begins a turn of `desk` for `clerk`, which goes on until the next one; it
  becomes the events that the same message of a JSON chat becomes (`formats.ag2`).
- `***** Suggested tool call (id): name *****` with its arguments is a `tool_call`,
  `***** Response from calling tool (id) *****` a `tool_result`.
- `>>>>>>>> TERMINATING RUN (…): reason` is the `stop`. Other `>>>>>>>>` lines repeat what turns say
  and belong to the header, as do the rules between turns and `Next speaker:`.
"""

from __future__ import annotations

import re
from typing import Any

from rolecraft.failure_taxonomy.formats.ag2 import RECORDS, turn_events
from rolecraft.failure_taxonomy.formats.logs._log import Log, blocks
from rolecraft.failure_taxonomy.formats.logs._loguru import COLOUR

NAME = "ag2_console"
MARKS = (
    re.compile(r"^(?:\x1b\[\d+m)?[\w .-]{1,60} \(to [\w .-]{1,60}\):(?:\x1b\[0m)?\r?$", re.M),
    re.compile(r"^-{80}\r?$", re.M),
)

_HEAD = re.compile(r"(?P<from>[\w .-]{1,60}) \(to (?P<to>[\w .-]{1,60})\):\s*")
_RULE = re.compile(r"-{80}\s*$")
_NOTICE = re.compile(r">>>>>>>> (?P<text>.*)|Next speaker: .*")
_STOP = re.compile(r"TERMINATING RUN \(.*?\): (?P<why>.*)")
_CALL = re.compile(
    r"\*{5} Suggested (?:tool|function) call(?: ?\((?P<id>.*?)\))?: (?P<name>.*?) \*{5}"
)
_RESPONSE = re.compile(
    r"\*{5} Response from calling (?P<role>tool|function)(?: \"?(?P<name>[^\"(]*?)\"?)?"
    r" ?(?:\((?P<id>.*?)\))? \*{5}"
)
_STARS = re.compile(r"\*{20,}\s*$")
_REASONS = {
    "Maximum turns": "rounds",
    "Maximum rounds": "rounds",
    "Termination message condition": "finished",
    "Maximum number of consecutive": "limit",
    "User requested": "cancelled",
    "No next speaker": "idle",
    "No reply": "idle",
}


def segment(text: str) -> Log:
    """The events of a chat that AG2 printed."""
    log = Log(COLOUR.sub("", text), {*RECORDS, "stop"})
    lines = [line.rstrip("\r") for line in log.lines.lines]
    for first, end, match in blocks(log, _HEAD):
        _turn(log, first, end, match, lines)
    if log.events:
        log.task = log.events[0].content
        log.skip_before(log.events[0].data["lines"][0] - 1)
    return log


def _turn(log: Log, first: int, end: int, match: re.Match[str], lines: list[str]) -> None:
    stop = end
    for at in range(first + 1, end):
        if _RULE.match(lines[at]):
            stop = at
            log.skip("header", at, at + 1)
            break
        if _NOTICE.match(lines[at]):
            stop = at
            break
    events, _ = turn_events(_message(lines[first + 1 : stop], match["from"]), log.events)
    for event in events:
        if event.kind == "message":
            event.to = (match["to"],)
        log.place(event, first, stop)
    _after(log, stop, end, lines)


def _message(body: list[str], speaker: str) -> dict[str, Any]:
    """The printed lines of a turn as the message that AG2 has."""
    message: dict[str, Any] = {"name": speaker}
    said: list[str] = []
    at = 0
    while at < len(body):
        call, response = _CALL.match(body[at]), _RESPONSE.match(body[at])
        if not call and not response:
            said.append(body[at])
            at += 1
            continue
        stop = next((n for n in range(at + 1, len(body)) if _STARS.match(body[n])), len(body))
        inner = "\n".join(body[at + 1 : stop]).strip("\n")
        if call:
            function = {"name": call["name"], "arguments": _arguments(inner)}
            message.setdefault("tool_calls", []).append({"id": call["id"], "function": function})
        elif response:
            row = {"tool_call_id": response["id"], "content": inner}
            message.setdefault("tool_responses", []).append(row)
        at = stop + 1
    message["content"] = "\n".join(said).strip("\n")
    return message


def _arguments(inner: str) -> str:
    return re.sub(r"^Arguments:\s*", "", inner).strip()


def _after(log: Log, first: int, end: int, lines: list[str]) -> None:
    """What stands between a turn and the next one: rules, and notices with what they repeat."""
    at = first
    while at < end:
        found = _NOTICE.match(lines[at])
        if found is None:
            at += 1
            continue
        stop = _STOP.match(found["text"] or "")
        if stop:
            _stop(log, at, stop["why"])
            at += 1
            continue
        last = next((n for n in range(at + 1, end) if _NOTICE.match(lines[n])), end)
        log.skip("header", at, last)
        at = last


def _stop(log: Log, at: int, why: str) -> None:
    reason = next((name for text, name in _REASONS.items() if why.startswith(text)), None)
    if reason is None:
        log.skip("header", at, at + 1)
    else:
        log.add("stop", "", at, at + 1, why, data={"reason": reason})
