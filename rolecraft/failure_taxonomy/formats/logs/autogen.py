"""What AutoGen 0.4+ prints (`Console`), and with it the logs of Magentic-One.

- `---------- TextMessage (clerk) ----------`, or without the kind of message, begins a turn of
  `clerk`, which goes on until the next one.
- `ThoughtEvent` is a thought; `ToolCallRequestEvent` gives a `tool_call` for each call,
  `ToolCallExecutionEvent` a `tool_result` for each result. `ToolCallSummaryMessage` is a message.
- A turn that begins `exitcode:` or comes from a terminal or an executor is the result of the code
  in the turn before it.
- `Finish reason:` of the summary is the `stop`. Token counts, the summary, and what a test bed
  prints before and after the run belong to the header; whether its tests passed to the labels.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from rolecraft.failure_taxonomy.formats.ag2 import MOST_OPEN
from rolecraft.failure_taxonomy.formats.chat import code_blocks, execution
from rolecraft.failure_taxonomy.formats.logs._log import Log, blocks
from rolecraft.messages import USER
from rolecraft.trajectories.events import Event

NAME = "autogen"
MARKS = (re.compile(r"^-{10} [\w (),.-]{1,80} -{10}\r?$", re.MULTILINE),)

_HEAD = re.compile(
    r"-{10} (?:(?P<kind>[A-Z]\w+) \((?P<of>[^()]+)\)|(?P<who>[^()]{1,80}?)) -{10}\s*"
)
_TOKENS = re.compile(r"\[Prompt tokens: \d+, Completion tokens: \d+\]\s*$")
_FINISH = re.compile(r"Finish reason: (?P<why>.*)")
_BED = re.compile(r".*!#!#\s*$")
_OUTCOME = re.compile(r".*(?:TESTS? (?:PASSED|FAILED)|ALL TESTS)", re.IGNORECASE)
_TERMINAL = re.compile(r"terminal|executor", re.IGNORECASE)
_REASONS = {
    "Maximum number of": "rounds",
    "Text ": "finished",
    "Stop message": "finished",
    "Token usage": "limit",
    "Timeout": "limit",
    "External termination": "cancelled",
    "Handoff": "approval",
}


def segment(text: str) -> Log:
    """The events of a run that AutoGen's console printed."""
    log = Log(text, {"message", "stop", "thought", "tool_call", "tool_result"})
    lines = [line.rstrip("\r") for line in log.lines.lines]
    bed = [at for at, line in enumerate(lines) if _BED.match(line)]
    start = next((at for at in bed if "SCENARIO.PY STARTING" in lines[at]), -1)
    over = next((at for at in bed if at > start and "STARTING" not in lines[at]), len(lines))
    for first, end, match in blocks(log, _HEAD):
        if start < first < over:
            _turn(log, first, min(end, over), match, lines)
    if log.events:
        _take_bed(log, log.events[0].data["lines"][0] - 1, over, lines)
    return log


def _take_bed(log: Log, first: int, over: int, lines: list[str]) -> None:
    """What the test bed printed before and after the run."""
    for start, stop in list(log.lines.free()):
        for at in range(start, stop):
            if at < first or at >= over:
                log.skip("labels" if _OUTCOME.match(lines[at]) else "header", at, at + 1)
    said = [line for line in lines[over:] if _OUTCOME.match(line)]
    if said:
        log.labels["test_bed"] = said


def _turn(log: Log, first: int, end: int, match: re.Match[str], lines: list[str]) -> None:
    kind, who = match["kind"] or "", match["of"] or match["who"]
    if who == "Summary" and not kind:
        _summary(log, first, end, lines)
        return
    log.skip("header", first, end)
    body = [at for at in range(first + 1, end) if not _TOKENS.match(lines[at])]
    while body and not lines[body[-1]].strip():
        body.pop()
    last = body[-1] + 1 if body else first + 1
    content = "\n".join(lines[at] for at in body)
    if who == "user":
        log.task = log.task or content.strip()
    if kind == "ThoughtEvent":
        log.add("thought", who, first, last, content)
    elif kind == "ToolCallRequestEvent":
        _calls(log, who, first, last, content)
    elif kind == "ToolCallExecutionEvent":
        _results(log, who, first, last, content)
    else:
        result = _executed(log, who, content)
        if result is not None:
            log.place(result, first, last)
        else:
            data = {"message": kind} if kind else {}
            log.add("message", USER if who == "user" else who, first, last, content, data=data)


def _executed(log: Log, who: str, content: str) -> Event | None:
    before = log.events[-1] if log.events else None
    result = execution(content.strip("\n"), who, before)
    if result is not None or before is None or not _TERMINAL.search(who):
        return result
    code = code_blocks(before.content)
    if not code:
        return None
    data = {"tool": who, "arguments": {"code": code}}
    return Event("tool_result", role=who, content=content, data=data, cause=before.seq)


def _calls(log: Log, who: str, first: int, end: int, content: str) -> None:
    rows = _rows(content, "FunctionCall")
    for row in rows:
        arguments = row.get("arguments")
        try:
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        except (ValueError, RecursionError):
            arguments = {"text": arguments}
        data = {"tool": row.get("name", ""), "arguments": arguments, "id": row.get("id", "")}
        log.add("tool_call", who, first, end, "", data=data)
    if not rows:
        log.add("message", who, first, end, content)


def _results(log: Log, who: str, first: int, end: int, content: str) -> None:
    rows = _rows(content, "FunctionExecutionResult")
    for row in rows:
        call = next(
            (
                event
                for event in reversed(log.events[-MOST_OPEN:])
                if event.kind == "tool_call" and event.data.get("id") == row.get("call_id")
            ),
            None,
        )
        data = {"tool": row.get("name", ""), "ok": not row.get("is_error", False)}
        log.add("tool_result", who, first, end, str(row.get("content", "")), data=data, cause=call)
    if not rows:
        log.add("message", who, first, end, content)


def _rows(content: str, name: str) -> list[dict[str, Any]]:
    """The fields of the objects in a printed list: `[FunctionCall(id='1', …), …]`."""
    try:
        tree = ast.parse(content.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    rows = []
    for item in tree.elts if isinstance(tree, ast.List) else []:
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id == name:
            fields = {}
            for keyword in item.keywords:
                if keyword.arg and isinstance(keyword.value, ast.Constant):
                    fields[keyword.arg] = keyword.value.value
            rows.append(fields)
    return rows


def _summary(log: Log, first: int, end: int, lines: list[str]) -> None:
    log.skip("header", first, end)
    for at in range(first + 1, end):
        found = _FINISH.match(lines[at])
        if found:
            why = found["why"]
            reason = next((name for text, name in _REASONS.items() if why.startswith(text)), None)
            if reason:
                log.add("stop", "", at, at + 1, why, data={"reason": reason})
