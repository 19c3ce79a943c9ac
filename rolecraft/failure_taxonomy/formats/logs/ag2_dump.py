"""AG2 chats as text: the two forms in which the MAST data keep them.

- Python dictionaries one after the other, `{'content': ['…'], 'role': '…', 'name': '…'}`.
- A listing with `content:`, `role:` and `name:` lines, its text indented below `content:`.

Each message becomes the events that the same message of a JSON chat becomes (`formats.ag2`).
Around them may stand the fields of a MAST trace; see `_dump`.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from rolecraft.failure_taxonomy.formats.ag2 import RECORDS, turn_events
from rolecraft.failure_taxonomy.formats.logs._log import Log

NAME = "ag2_dump"
MARKS = (re.compile(r"^[ \t]*(?:\{['\"]content['\"]:|content:[^\n]*$)", re.MULTILINE),)

_DICT = re.compile(r"\{['\"]content['\"]:")
_CONTENT = re.compile(r"(?P<indent>[ \t]*)(?:- )?content:(?P<rest>.*)")
_FIELD = re.compile(r"[ \t]*(?P<key>role|name):[ \t]*(?P<value>.*)")
MOST_PIECES = 50
"""A message whose text looks like the beginning of others is put together of at most so many."""


def segment(text: str) -> Log:
    """The events of an AG2 chat that was written out as text."""
    log = Log(text, set(RECORDS))
    first, end = log.first, log.end
    body = _dicts if _DICT.search(log.lines.text(first, end)) else _listing
    for turn, (message, start, stop) in enumerate(body(log, first, end)):
        events, flaw = turn_events(message, log.events)
        for event in events:
            event.data["turn"] = turn
            log.place(event, start, stop)
        if flaw:
            log.warnings.append(f"message {turn}: {flaw}")
    if not log.task and log.events:
        log.task = log.events[0].content
    return log


def _dicts(log: Log, first: int, end: int) -> Iterator[tuple[dict[str, Any], int, int]]:
    lines = log.lines.lines[first:end]
    text = "\n".join(lines)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    starts = [match.start() for match in _DICT.finditer(text)] + [len(text)]
    at = 0
    while at < len(starts) - 1:
        for upto in range(at + 1, min(at + MOST_PIECES, len(starts) - 1) + 1):
            message = _literal(text[starts[at] : starts[upto]])
            if message is not None:
                start = bisect_right(offsets, starts[at]) - 1
                last = starts[at] + len(text[starts[at] : starts[upto]].rstrip()) - 1
                stop = bisect_right(offsets, last)
                yield message, first + start, first + stop
                at = upto
                break
        else:
            at += 1


def _literal(piece: str) -> dict[str, Any] | None:
    try:
        value = ast.literal_eval(piece.strip().rstrip(",]"))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return value if isinstance(value, dict) else None


def _listing(log: Log, first: int, end: int) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Messages of a listing. The first `content:` says how deep they all stand."""
    lines = [line.rstrip("\r") for line in log.lines.lines]
    width: int | None = None
    starts: list[tuple[int, str]] = []
    for at in range(first, end):
        match = _CONTENT.match(lines[at])
        if match and (width is None or len(match["indent"]) == width):
            width = len(match["indent"])
            starts.append((at, match["rest"]))
    stops = [*(at for at, _ in starts), end][1:]
    for (start, rest), stop in zip(starts, stops, strict=True):
        message: dict[str, Any] = {}
        body: list[str] = []
        last = start
        for at in range(start + 1, stop):
            match = _FIELD.fullmatch(lines[at])
            if match and _depth(lines[at]) <= (width or 0) + 2 and match["key"] not in message:
                message[match["key"]] = match["value"].strip().strip("'\"")
                last = at
            elif not message:
                body.append(lines[at])
                last = at if lines[at].strip() else last
        deep = min((_depth(line) for line in body if line.strip()), default=0)
        content = [*([rest.strip()] if rest.strip() not in ("", "|", "|-") else [])]
        content += [line[deep:] for line in body]
        message["content"] = "\n".join(content).strip("\n")
        yield message, start, last + 1


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
