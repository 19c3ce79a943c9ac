"""Logs of the AppWorld agents of the MAST data: a supervisor and one agent for each app.

Each part begins with a line of its own, however deep it is indented:

- `Response from Supervisor Agent` is code that is executed: a `tool_call`, whose `tool_result` is
  the `Code Execution Output` that follows at the same depth. Without one it is a message.
- `Message to Spotify Agent` and `Reply from Spotify Agent` are messages between the two.
- `Response from send_message API` is the result of the supervisor's call.
- The task stands below the banner (`**** Task 1/1 (id) ****`); what stands below a further banner
  is a message of the user.
- What the benchmark says about the outcome (`Overall Stats`, up to the next banner) is a label.
"""

from __future__ import annotations

import re
import textwrap

from rolecraft.failure_taxonomy.formats.logs._log import Log, blocks
from rolecraft.messages import USER
from rolecraft.trajectories.events import Event

NAME = "appworld"
MARKS = (
    re.compile(r"^[ \t]*(?:Response from [\w ]+ Agent|Code Execution Output)[ \t]*\r?$", re.M),
)

_HEAD = re.compile(
    r"(?P<indent>[ \t]*)(?:"
    r"Response from (?P<by>[\w ]+?) Agent"
    r"|Reply from (?P<reply>[\w ]+?) Agent"
    r"|Message to (?P<to>[\w ]+?) Agent"
    r"|(?P<enter>Entering|Exiting) (?P<loop>[\w ]+?) Agent message loop"
    r"|(?P<output>Code Execution Output)"
    r"|Response from (?P<api>\w+) API"
    r"|(?P<banner>\*{5,}\s*Task \d+/\d+.*\*{5,})"
    r")[ \t]*\r?"
)
_BANNER = re.compile(r"[ \t]*\*{5,}\s*Task \d+/\d+.*\*{5,}\s*")
_OUTCOME = re.compile(r".*(?:Overall Stats|Num Passed Tests|>> Failed Requirement)")
_SUPERVISOR = "Supervisor"


def segment(text: str) -> Log:
    """The events of an AppWorld log."""
    log = Log(text, {"action", "message", "tool_call", "tool_result"})
    _labels(log)
    found = [block for block in blocks(log, _HEAD) if log.lines.is_free(block[0])]
    if all(match["banner"] for _, _, match in found):
        return log
    log.skip_before(found[0][0])
    reader = _Reader(log, _executed([match for _, _, match in found]))
    for number, (first, end, match) in enumerate(found):
        reader.part(number, first, _until_taken(log, first, end), match)
    return log


def _labels(log: Log) -> None:
    """Take what the benchmark says about the outcome, up to the next task."""
    lines = log.lines.lines
    at, said = 0, []
    while at < len(lines):
        if not _OUTCOME.match(lines[at]):
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not _BANNER.fullmatch(lines[end].rstrip("\r")):
            end += 1
        said.append(log.skip("labels", at, end))
        at = end
    if said:
        log.labels["evaluation"] = "\n".join(said)


def _until_taken(log: Log, first: int, end: int) -> int:
    return next((at for at in range(first + 1, end) if not log.lines.is_free(at)), end)


def _executed(heads: list[re.Match[str]]) -> dict[int, int]:
    """For each output the response whose code it is of: the last one before it, as deep."""
    last: dict[int, int] = {}
    outputs: dict[int, int] = {}
    for number, match in enumerate(heads):
        depth = len(match["indent"].expandtabs())
        if match["by"]:
            last[depth] = number
        elif match["output"] and depth in last:
            outputs[number] = last.pop(depth)
    return outputs


def _agent(name: str) -> str:
    """`spotify` and `Spotify` are one agent."""
    return name[:1].upper() + name[1:]


class _Reader:
    def __init__(self, log: Log, outputs: dict[int, int]) -> None:
        self.log = log
        self.outputs = outputs
        self.executed = frozenset(outputs.values())
        self.loop: list[str] = []
        """The agents whose loops were entered and not left."""
        self.calls: dict[int, Event] = {}

    def part(self, number: int, first: int, end: int, match: re.Match[str]) -> None:
        log = self.log
        body = textwrap.dedent(log.lines.text(first + 1, end)).strip("\n")
        while end > first + 1 and not log.lines.lines[end - 1].strip():
            end -= 1
        if match["banner"]:
            self._task(body, first, end)
        elif match["by"]:
            self._response(number, _agent(match["by"]), body, first, end)
        elif match["output"] or match["api"]:
            call = self.calls.get(self.outputs.get(number, -1))
            role = call.role if call else ""
            tool = call.data["tool"] if call else match["api"] or "code"
            ok = "Traceback (most recent call last)" not in body and "Execution failed" not in body
            data = {"tool": tool, "ok": ok}
            log.add("tool_result", role, first, end, body, data=data, cause=call)
        elif match["enter"]:
            log.skip("header", first, first + 1)
            name = _agent(match["loop"])
            if match["enter"] == "Entering":
                self.loop.append(name)
            elif name in self.loop:
                self.loop.remove(name)
        elif match["reply"]:
            log.add("message", _agent(match["reply"]), first, end, body, to=(_SUPERVISOR,))
        else:
            self._message(_agent(match["to"]), body, first, end)

    def _task(self, body: str, first: int, end: int) -> None:
        """The first task is the header's; that of a further run is a word of the user."""
        if not self.log.events and not self.log.task:
            self.log.task = body.strip()
            self.log.skip("header", first, end)
        else:
            self.log.add("message", USER, first, end, body)

    def _response(self, number: int, role: str, body: str, first: int, end: int) -> None:
        if number in self.executed:
            data = {"tool": "code", "arguments": {"code": body}}
            self.calls[number] = self.log.add("tool_call", role, first, end, "", data=data)
        else:
            self.log.add("message", role, first, end, body, to=(self._partner(role),))

    def _message(self, to: str, body: str, first: int, end: int) -> None:
        sender = _SUPERVISOR if to != _SUPERVISOR else (self.loop[-1] if self.loop else USER)
        self.log.add("message", sender, first, end, body, to=(to,))

    def _partner(self, role: str) -> str:
        return _SUPERVISOR if role != _SUPERVISOR else (self.loop[-1] if self.loop else USER)
