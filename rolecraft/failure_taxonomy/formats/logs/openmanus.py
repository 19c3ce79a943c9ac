"""OpenManus logs (loguru): one agent that thinks, chooses tools and calls them.

- `Manus's thoughts:` is a thought of `Manus`, with the lines below it.
- `Tools being prepared: ['…']` and `Tool arguments: {…}` make a `tool_call` for each tool; the log
  shows the arguments of the first one.
- `Tool '…' completed its mission! Result: …` is the `tool_result` of the open call of that tool.
- `Terminated: Reached max steps` is a `stop` (`rounds`). Steps, token counts and plans that the
  flow keeps belong to the header; errors become `error` events.
"""

from __future__ import annotations

import json
import re
from typing import Any

from rolecraft.failure_taxonomy.formats.logs._log import Log, blocks
from rolecraft.failure_taxonomy.formats.logs._loguru import COLOUR, HEAD
from rolecraft.trajectories.events import Event

NAME = "openmanus"
MARKS = (re.compile(r"\| app\.(?:agent|flow|tool|llm)[\w.]*:\w+:\d+ ?- ", re.MULTILINE),)

_THOUGHTS = re.compile(r"\W*(?P<who>[\w -]{1,40}?)'s thoughts:\s?(?P<rest>.*)")
_TOOLS = re.compile(r"\W*Tools being prepared: (?P<names>\[.*\])")
_ARGUMENTS = re.compile(r"\W*Tool arguments: (?P<given>.*)")
_RESULT = re.compile(r"\W*Tool '(?P<name>[^']*)' completed its mission! Result:\s?(?P<rest>.*)")
_STOP = re.compile(r".*Reached max steps", re.IGNORECASE)
_AGENT = "Manus"


def segment(text: str) -> Log:
    """The events of an OpenManus log."""
    log = Log(COLOUR.sub("", text), {"error", "stop", "thought", "tool_call", "tool_result"})
    reader = _Reader(log)
    found = blocks(log, HEAD)
    for first, end, match in found:
        reader.entry(first, end, match)
    if log.events:
        log.skip_before(found[0][0])
    return log


class _Reader:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.agent = _AGENT
        self.open: list[Event] = []
        """Calls without a result."""

    def entry(self, first: int, end: int, match: re.Match[str]) -> None:
        text = match["text"]
        if found := _THOUGHTS.match(text):
            self.agent = found["who"]
            if found["rest"].strip() or self._body(first, end).strip():
                content = f"{found['rest']}\n{self._body(first, end)}"
                self.log.add("thought", self.agent, first, end, content)
            else:
                self.log.skip("header", first, end)
        elif found := _TOOLS.match(text):
            self.open = []
            for name in re.findall(r"'([^']*)'", found["names"]):
                call = self.log.add("tool_call", self.agent, first, end, "", data={"tool": name})
                self.open.append(call)
        elif found := _ARGUMENTS.match(text):
            self._arguments(f"{found['given']}\n{self._body(first, end)}".strip())
            self.log.skip("events", first, end)
        elif found := _RESULT.match(text):
            self._result(found["name"], f"{found['rest']}\n{self._body(first, end)}", first, end)
        elif _STOP.match(text):
            self.log.add("stop", "", first, end, text, data={"reason": "rounds"})
        elif match["level"] in ("ERROR", "CRITICAL"):
            content = f"{text}\n{self._body(first, end)}"
            self.log.add("error", self.agent, first, end, content, data={"type": match["module"]})
        else:
            self.log.skip("header", first, end)

    def _body(self, first: int, end: int) -> str:
        return self.log.lines.text(first + 1, end)

    def _arguments(self, given: str) -> None:
        try:
            arguments: Any = json.loads(given)
        except (ValueError, RecursionError):
            arguments = {"text": given}
        if self.open:
            self.open[0].data["arguments"] = arguments

    def _result(self, name: str, content: str, first: int, end: int) -> None:
        call = next((call for call in self.open if call.data["tool"] == name), None)
        if call is not None:
            self.open.remove(call)
        ok = re.match(r"\s*(?:Error|Observed output of cmd `[^`]*` executed:\s*Error)", content)
        data = {"tool": name, "ok": ok is None}
        self.log.add("tool_result", self.agent, first, end, content, data=data, cause=call)
