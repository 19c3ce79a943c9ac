"""HyperAgent logs: a planner that hands subgoals to interns, as its logger writes them.

A record begins `HyperAgent_<instance> - INFO - ` and goes on until the next one.

- `Planner's Response:` and `Inner-Navigator-Assistant's Response:` are split at their own marks:
  `Thought:` becomes a thought, an `Action:` with its code a `tool_call` (the tool is what the code
  runs, `open_file` in `open_file._run(…)`), `Intern Name:` with `Subgoal:` a `tool_call` of that
  intern, what follows `Observation:` a `tool_result`, `Final Answer:` a message.
- `Navigator->Planner:` answers the planner's open call of that intern: a `tool_result`; without
  such a call it is a message.
- The log rarely shows what code returned. A call after which its author went on has
  `data["done"]`: it was carried out, and its result is not in the log.
- `Initialized HyperAgent instance` after work has begun is a `reset`.
- A record that repeats the one before it word for word has `data["again"]`; `about["repeated"]`
  is the share of such records. A logger with two handlers makes it about one half.
- An intern's prompt, which the log echoes (`Use the following format`), belongs to the header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from rolecraft.failure_taxonomy.formats.logs._log import Log, blocks
from rolecraft.messages import ALL
from rolecraft.trajectories.events import Event

NAME = "hyperagent"
MARKS = (re.compile(r"^[ \t]*(?:\S+ \S+ - )?HyperAgent_\S* - [A-Z]+ - ", re.MULTILINE),)

_HEAD = re.compile(
    r"(?P<indent>[ \t]*)(?:\S+ \S+ - )?HyperAgent_\S* - (?P<level>[A-Z]+) - (?P<rest>.*)"
)
_RESPONSE = re.compile(r"(?P<who>[\w -]{1,60})'s Response:[ ]?(?P<body>.*)")
_RELAY = re.compile(r"(?P<who>[\w -]{1,60}?) ?-> ?(?P<to>[\w -]{1,60}):[ ]?(?P<body>.*)")
_PART = re.compile(
    r"[ \t]*(?P<mark>Thought|Action|Observation|Intern Name|Subgoal|Final Answer)[ \t]*:"
    r"[ \t]*(?P<rest>.*)"
)
_OBSERVATION = re.compile(r"[ \t]*Observation[ \t]*$")
_FENCE = re.compile(r"[ \t]*```")
_RUN = re.compile(r"(\w+)\._?run\(")
_TEMPLATE = "Use the following format"


def segment(text: str) -> Log:
    """The events of a HyperAgent log."""
    log = Log(text, {"action", "message", "thought", "tool_call", "tool_result", "reset"})
    reader = _Reader(log)
    found = blocks(log, _HEAD)
    for first, end, match in found:
        reader.record(first, end, match)
    if reader.records:
        log.about["repeated"] = round(reader.repeats / reader.records, 3)
        log.skip_before(found[0][0])
    return log


def _intern(name: str) -> str:
    """`Inner-Navigator-Assistant` and `Codebase Navigator` are both `Navigator`."""
    name = name.strip()
    inner = re.fullmatch(r"Inner-(.+?)-Assistant", name)
    return (inner[1] if inner else name.removeprefix("Codebase ")).strip()


@dataclass(slots=True)
class _Reader:
    log: Log
    records: int = 0
    repeats: int = 0
    last: tuple[str, int] = ("", -1)
    worked: bool = False
    acting: dict[str, Event] = field(default_factory=dict)
    """The last call of each role that nothing shows to be finished."""
    given: dict[str, list[Event]] = field(default_factory=dict)
    """The planner's calls of each intern that were not answered."""

    def record(self, first: int, end: int, match: re.Match[str]) -> None:
        log = self.log
        while end > first + 1 and not log.lines.lines[end - 1].strip():
            end -= 1
        rest = match["rest"]
        if rest.startswith("Initialized"):
            self._begins(first, rest)
            return
        response, relay = _RESPONSE.fullmatch(rest), _RELAY.fullmatch(rest)
        said = response or relay
        if said is None:
            kind: Any = "error" if match["level"] in ("ERROR", "CRITICAL") else "message"
            log.add(kind, "", first, end, _cut(log, first, end, rest, match["indent"]))
            return
        body = _cut(log, first, end, said["body"], match["indent"])
        again = self._again(rest, body)
        role = _intern(said["who"])
        begun = len(log.events)
        if body.startswith(_TEMPLATE):
            log.describe(role, system=body)
            log.skip("header", first, end)
        elif response:
            self._response(role, body, first, end, again=again >= 0)
        else:
            self._relay(role, _intern(relay["to"]) if relay else "", body, first, end)
        for event in log.events[begun:]:
            if again >= 0:
                event.data["again"] = True
            if role != said["who"]:
                event.data["speaker"] = said["who"]
        self.worked = True

    def _begins(self, first: int, rest: str) -> None:
        if self.worked and rest.startswith("Initialized HyperAgent"):
            self.log.add("reset", "", first, first + 1, rest)
            self.worked = False
            self.acting.clear()
            self.given.clear()
        else:
            self.log.skip("header", first, first + 1)

    def _again(self, rest: str, body: str) -> int:
        self.records += 1
        same = self.last[0] == rest.split(":", 1)[0] + body
        self.last = (rest.split(":", 1)[0] + body, self.records)
        self.repeats += same
        return self.records if same else -1

    def _response(self, role: str, body: str, first: int, end: int, *, again: bool) -> None:
        """A role's turn, split at its own marks."""
        self._went_on(role)
        if not again:
            self.given.clear() if role == "Planner" else None
        intern = ""
        call: Event | None = None
        for mark, text, start, stop in _parts(body, end - first):
            where = (first + start, first + stop)
            if mark == "Thought":
                self.log.add("thought", role, *where, text)
            elif mark == "Action":
                call = self.log.add("tool_call", role, *where, "", data=_action(text))
                self.acting[role] = call
            elif mark == "Observation":
                self.log.add("tool_result", role, *where, text, cause=call)
                self.acting.pop(role, None)
            elif mark == "Intern Name":
                intern = _intern(text)
                self.log.skip("events", *where)
            elif mark == "Subgoal":
                data = {"tool": intern, "arguments": {"subgoal": text.strip()}}
                call = self.log.add("tool_call", role, *where, "", data=data)
                self.given.setdefault(intern, []).append(call)
            else:
                self.log.add("message", role, *where, text)

    def _relay(self, role: str, to: str, body: str, first: int, end: int) -> None:
        """What an intern hands back."""
        self._went_on(role)
        waiting = self.given.get(role)
        if waiting:
            call = waiting.pop(0)
            data = {"tool": role}
            event = self.log.add("tool_result", role, first, end, body, data=data, cause=call)
            event.to = (to or ALL,)
        else:
            self.log.add("message", role, first, end, body, to=(to or ALL,))

    def _went_on(self, role: str) -> None:
        call = self.acting.pop(role, None)
        if call is not None:
            call.data["done"] = True


def _cut(log: Log, first: int, end: int, head: str, indent: str) -> str:
    """The text of a record: what follows its head, and its further lines."""
    width = len(indent)
    further = (
        [
            line[width:] if line.startswith(indent) else line
            for line in log.lines.text(first + 1, end).split("\n")
        ]
        if end > first + 1
        else []
    )
    return "\n".join([head, *further])


def _parts(body: str, height: int) -> list[tuple[str, str, int, int]]:
    """A turn as (mark, text, first line, end), marks inside code left alone."""
    lines = body.split("\n")
    starts: list[tuple[int, str, str]] = []
    fenced = False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced if line.count("```") % 2 else fenced
        elif not fenced:
            match = _PART.match(line)
            if match:
                starts.append((at, match["mark"], match["rest"]))
            elif _OBSERVATION.match(line):
                starts.append((at, "Observation", ""))
    if not starts or starts[0][0] > 0:
        starts.insert(0, (0, "", lines[0]))
    ends = [at for at, _, _ in starts[1:]] + [height]
    parts = []
    for (at, mark, rest), stop in zip(starts, ends, strict=True):
        text = "\n".join([rest, *lines[at + 1 : stop]]).strip("\n")
        if mark or text.strip():
            parts.append((mark, text, at, stop))
    return parts


def _action(text: str) -> dict[str, Any]:
    """The tool that a piece of code runs, and the code."""
    found = re.search(r"```([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", text, re.DOTALL | re.MULTILINE)
    language, code = (found[1], found[2]) if found else ("", text)
    runs = _RUN.search(code)
    tool = runs[1] if runs else language or "code"
    return {"tool": tool, "arguments": {"code": code.strip("\n")}}
