"""ChatDev logs: phases in which two roles talk, as its logger writes them.

An entry begins `[2025-17-01 11:36:46 INFO] ` (year, day, month) and goes on until the next one.

- `Programmer: **Programmer<->Chief Technology Officer on : Coding, turn 0**` is a turn. What a
  role does in ChatDev is its phase, so each turn is an `action` named after the phase and, caused
  by it, the role's message. The system prompt (of the partner) that stands in brackets before
  every message is kept once, with the role that it is for.
- `**[Start Chat]**` is the instruction with which the other role opens the phase: a message.
- `**[Update Codes]**` changes an `artifact`, the file it names; its hash is that of the change as
  the log shows it. `**[Seminar Conclusion]**` is the artifact that the phase leaves, without
  content where it only repeats the last message. Both come from the message before them.
- `**[Test Reports]**` is the `tool_result` of the test run, `**[CMD Execute]**` a `tool_call`.
- `ChatDev Ends` is the `stop`. Configuration, token counts (which become the next message's usage)
  and HTTP requests belong to the header. The task is `task_prompt`.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from rolecraft.failure_taxonomy.formats.logs._log import Log, blocks
from rolecraft.messages import ALL
from rolecraft.trajectories.events import Artifact, Event, Usage

NAME = "chatdev"
MARKS = (
    re.compile(
        r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]+\] (?:[\w .-]{1,60}: )?\*\*\S", re.MULTILINE
    ),
)

_HEAD = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?P<level>[A-Z]+)\] ?(?P<rest>.*)")
_SPEAKER = re.compile(r"(?P<who>[A-Za-z][\w .-]{0,60}): (?P<rest>.*)")
_TURN = re.compile(
    r"\*\*(?P<who>[^*<>]+?)<->(?P<to>[^*<>]+?) on ?: ?(?P<phase>[^*,]+), turn (?P<turn>\d+)\*\*"
)
_TAG = re.compile(r"\*\*\[(?P<tag>[^\]]+)\]\*\*:?[ \t]*(?P<rest>.*)")
_ROW = re.compile(r"\|\s*\*\*(?P<key>[\w ]+)\*\*\s*\|\s*(?P<value>.*?)\s*\|")
_FIELD = re.compile(r"\*\*(?P<key>task_prompt|project_name)\*\*: ?(?P<value>.*)")
_PHASE = re.compile(r"execute SimplePhase:\[(?P<phase>\w+)\]")
_UPDATED = re.compile(r"(?P<name>\S.*?) (?:updated|created)\.")
_COUNT = re.compile(r"(?P<key>prompt_tokens|completion_tokens): ?(?P<count>\d+)")
_NOISE = re.compile(r"flask app\.py|HTTP Request: |Retrying request|https?://")
_FINE = "The software run successfully without errors."
_CONFIGURATION = frozenset(
    {"chatting", "RolePlaying", "Execute Detail", "Software Info", "Rewrite Codes"}
)
_YOU_ARE = re.compile(r"^You are (?:an? |the )?(?P<who>[A-Z][\w ]{0,60}?)[.,;:]", re.MULTILINE)


def segment(text: str) -> Log:
    """The events of a ChatDev log."""
    log = Log(text, {"action", "artifact", "error", "message", "stop", "tool_call", "tool_result"})
    reader = _Reader(log)
    found = blocks(log, _HEAD)
    for first, end, match in found:
        reader.entry(first, end, match["rest"], match["level"])
    if log.events:
        log.skip_before(found[0][0])
    return log


class _Reader:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.phase = ""
        self.pair = ("", "")
        """Assistant and user of the phase."""
        self.said: Event | None = None
        self.usage: Usage | None = None

    def entry(self, first: int, end: int, rest: str, level: str) -> None:
        while end > first + 1 and not self.log.lines.lines[end - 1].strip():
            end -= 1
        if level == "DEBUG":
            self.log.skip("header", first, end)
            return
        spoken = _SPEAKER.fullmatch(rest)
        if spoken and (turn := _TURN.match(spoken["rest"])):
            self._turn(first, end, turn)
        elif spoken and spoken["rest"].startswith("**[Start Chat]**"):
            self._start(first, end, spoken["who"])
        elif tag := _TAG.match(spoken["rest"] if spoken else rest):
            self._tagged(first, end, tag)
        elif level in ("ERROR", "CRITICAL"):
            content = "\n".join([rest, self._body(first, end)])
            self.log.add("error", "", first, end, content, data={"type": level})
        elif _NOISE.match(rest) or not rest.strip():
            self.log.skip("header", first, end)
        else:
            who = spoken["who"] if spoken and " " not in spoken["who"].strip() else ""
            content = "\n".join(
                [spoken["rest"] if spoken and who else rest, self._body(first, end)]
            )
            self.log.add("message", who, first, end, content)

    def _body(self, first: int, end: int) -> str:
        return self.log.lines.text(first + 1, end)

    # --- turns --------------------------------------------------------------------------------

    def _turn(self, first: int, end: int, turn: re.Match[str]) -> None:
        who, phase = turn["who"].strip(), turn["phase"].strip()
        self.phase = phase
        content = self._without_prompt(first, end)
        data: dict[str, Any] = {"phase": phase, "turn": int(turn["turn"])}
        step = self.log.add("action", who, first, first + 1, "", data={"action": phase})
        self.said = self.log.add(
            "message", who, first, end, content, to=(turn["to"].strip(),), data=data, cause=step
        )
        self.said.usage, self.usage = self.usage, None

    def _start(self, first: int, end: int, who: str) -> None:
        content = self._without_prompt(first, end)
        data = {"phase": self.phase, "start": True}
        to = self.pair[0] or ALL
        self.log.add("message", who, first, end, content, data=data, to=(to,))

    def _without_prompt(self, first: int, end: int) -> str:
        """What was said, without the system prompt before it, which is noted with its role."""
        prompt, content = _split_prompt(self._body(first, end))
        whose = _YOU_ARE.search(prompt)
        if whose:
            self.log.describe(whose["who"], system=prompt)
        return content

    # --- entries with a tag -------------------------------------------------------------------

    def _tagged(self, first: int, end: int, tag: re.Match[str]) -> None:
        name = tag["tag"]
        body = "\n".join([tag["rest"], self._body(first, end)]).strip("\n")
        if name == "Preprocessing" or name in _CONFIGURATION or name.startswith("OpenAI_Usage"):
            self._configured(name, body)
            self.log.skip("header", first, end)
        elif name.startswith("Update ") or name == "Seminar Conclusion":
            self._artifact(name, body, first, end)
        elif name == "Test Reports":
            data = {"tool": "run the software", "ok": body.strip() == _FINE}
            self.log.add("tool_result", "environment", first, end, body, data=data)
        elif name == "CMD Execute":
            data = {"tool": "cmd", "arguments": {"command": body}, "done": True}
            who = self.said.role if self.said else ""
            self.log.add("tool_call", who, first, end, "", data=data, cause=self.said)
        elif name == "Post Info":
            self._over(first, end)
        else:
            self.log.add("message", "", first, end, body, data={"tag": name})

    def _configured(self, name: str, body: str) -> None:
        if name.startswith("OpenAI_Usage"):
            counts = {found["key"]: int(found["count"]) for found in _COUNT.finditer(body)}
            if counts:
                self.usage = Usage(**counts)
            return
        if name == "Preprocessing":
            self.log.task = self.log.task or _task(body)
        rows = {found["key"]: found["value"] for found in _ROW.finditer(body)}
        self.pair = (rows.get("assistant_role_name", self.pair[0]), rows.get("user_role_name", ""))
        self.phase = rows.get("phase_name", self.phase)
        if phase := _PHASE.search(body):
            self.phase = phase["phase"]

    def _artifact(self, tag: str, body: str, first: int, end: int) -> None:
        """Something that the last message left."""
        updated = _UPDATED.match(body.strip())
        conclusion = tag == "Seminar Conclusion"
        name = self.phase if conclusion else updated["name"] if updated else tag.split()[-1].lower()
        who = self.said.role if self.said else ""
        repeats = self.said is not None and self.said.content.split() == body.split()
        content = "" if conclusion and repeats else body
        event = self.log.add("artifact", who, first, end, content, cause=self.said)
        event.artifact = Artifact(
            name or "conclusion", sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
        )

    def _over(self, first: int, end: int) -> None:
        self.log.skip("header", first, end)
        for at in range(first, end):
            if "ChatDev Ends" in self.log.lines.lines[at]:
                self.log.add("stop", "", at, at + 1, data={"reason": "finished"})
                return


def _task(body: str) -> str:
    """The value of `task_prompt`, up to the next field."""
    lines = body.split("\n")
    for at, line in enumerate(lines):
        found = _FIELD.match(line)
        if found and found["key"] == "task_prompt":
            end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("**")), None)
            return "\n".join([found["value"], *lines[at + 1 : end]]).strip()
    return ""


def _split_prompt(body: str) -> tuple[str, str]:
    """The system prompt in brackets at the start of an entry, and what was said."""
    text = body.lstrip("\n")
    if not text.startswith("["):
        return "", text
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.rstrip().endswith("]") and (at + 1 == len(lines) or not lines[at + 1].strip()):
            return "\n".join(lines[: at + 1])[1:-1].rstrip("]"), "\n".join(lines[at + 1 :])
    return "", text
