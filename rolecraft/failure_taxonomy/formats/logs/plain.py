"""Transcripts as plain text: any lines that say who speaks, and to whom.

A turn begins with a line such as `Ada: text`, `**Ada**: text`, `Ada -> Ben: text`, `Ada (to Ben):`
or `[Ada] text`, with or without a time before it (`[12:30:01]`, `2025-01-17 12:30:01`), and goes
on until the next one. Lines that are indented or stand in a fenced block begin no turn.

The rules are strict, because `Note: …` looks like a speaker too. A name counts if it stands at the
beginning of at least two turns, is no word such as `Note` or `Step 2`, and begins with a capital
letter or is one of a chat's own words (`user`, `assistant`, …); with a time or an arrow any name
counts. A text is taken for a transcript without being told so if it has at least two speakers and
four turns, and nearly everything in it belongs to a turn.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from rolecraft.failure_taxonomy.formats.chat import execution
from rolecraft.failure_taxonomy.formats.logs._log import Log
from rolecraft.messages import ALL, USER

NAME = "text"
FEWEST_TURNS = 4
FEWEST_SPEAKERS = 2
MOST_BEFORE = 0.2
"""The most of a transcript's lines that may stand before its first turn."""

_TIME = (
    r"(?P<time>\[[^\]\n]{0,12}\d{1,2}:\d\d[^\]\n]{0,20}\]|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?\S*"
    r"|\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?)"
)
_WORD = r"[A-Za-z_][\w.'-]{0,30}"
_NAME = rf"{_WORD}(?: [\w.'-]{{1,30}}){{0,3}}"
_HEAD = re.compile(
    rf"(?:{_TIME}[ \t]*(?:[-|] ?)?)?"
    rf"(?:(?P<from>{_NAME}) ?(?:->|=>|→) ?(?P<to>{_NAME})(?::|$)"
    rf"|(?P<by>{_NAME}) \((?:to|->) ?(?P<whom>{_NAME})\):"
    rf"|\*\*(?P<bold>{_NAME})(?::\*\*|\*\*:)"
    rf"|(?P<who>{_NAME}):(?=\s|$)"
    rf"|\[(?P<square>{_NAME})\](?=\s|$):?)"
    r"[ \t]*(?P<rest>.*)"
)
_NOBODY = re.compile(
    r"(?:note|notes|example|examples|warning|error|errors|hint|tip|info|debug|todo|fixme|output"
    r"|input|result|results|answer|question|problem|solution|task|goal|summary|conclusion|context"
    r"|thought|action|action input|observation|final answer|subgoal|plan|args|arguments|returns"
    r"|raises|parameters|usage|code|code output|traceback|caused by|date|time|subject|from|to|cc"
    r"|title|author|version|source|file|line|http|https|ftp|case|default|else|try|finally|pass"
    r"|(?:step|phase|part|round|turn|section|chapter|case|option|test|figure|table|line)s? \w+)$",
    re.IGNORECASE,
)
_CHAT_WORDS = frozenset(
    {"user", "assistant", "system", "human", "ai", "bot", "agent", "tool", "function"}
)
_USERS = frozenset({"user", "human", "customer"})
_SIGNS = frozenset(":]>→")
"""A line that begins a turn has one of them."""
_NO_HEAD = frozenset(" \t")
_FENCE = re.compile(r"[ \t]*```")


@dataclass(frozen=True, slots=True)
class _Turn:
    at: int
    speaker: str
    to: str
    rest: str
    sure: bool
    """It has a time or an arrow."""


def is_transcript(text: str) -> bool:
    """True for a text that may be read as a transcript without being told so."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    turns = _turns(lines, strict=True)
    if len(turns) < FEWEST_TURNS or len({turn.speaker for turn in turns}) < FEWEST_SPEAKERS:
        return False
    filled = [at for at, line in enumerate(lines) if line.strip()]
    before = sum(at < turns[0].at for at in filled)
    return before <= MOST_BEFORE * len(filled)


def segment(text: str) -> Log:
    """The turns of a transcript."""
    log = Log(text, {"message"})
    lines = [line.rstrip("\r") for line in log.lines.lines[: log.end]]
    turns = [turn for turn in _turns(lines, strict=False) if turn.at >= log.first]
    ends = [*(turn.at for turn in turns), len(lines)][1:]
    for turn, end in zip(turns, ends, strict=True):
        while end > turn.at + 1 and not lines[end - 1].strip():
            end -= 1
        content = "\n".join([*([turn.rest] if turn.rest else []), *lines[turn.at + 1 : end]])
        before = log.events[-1] if log.events else None
        executed = execution(content.strip("\n"), turn.speaker, before)
        if executed is not None:
            log.place(executed, turn.at, end)
            continue
        role = USER if turn.speaker.lower() in _USERS else turn.speaker
        data = {"speaker": turn.speaker} if role != turn.speaker else {}
        to = (USER if turn.to.lower() in _USERS else turn.to) or ALL
        log.add("message", role, turn.at, end, content, to=(to,), data=data)
    first = log.events[0] if log.events else None
    if first is not None and first.role == USER:
        log.task = first.content
    return log


def _turns(lines: list[str], *, strict: bool) -> list[_Turn]:
    fenced = _fenced(lines)
    found = [turn for at, line in enumerate(lines) if not fenced[at] and (turn := _turn(at, line))]
    times = Counter(turn.speaker for turn in found)
    least = 2 if strict or len(found) > 1 else 1
    return [
        turn
        for turn in found
        if turn.sure
        or (times[turn.speaker] >= least and (not strict or _looks_like_a_name(turn.speaker)))
    ]


def _turn(at: int, line: str) -> _Turn | None:
    if line[:1] in _NO_HEAD or not _SIGNS.intersection(line):
        return None
    match = _HEAD.match(line)
    if match is None:
        return None
    speaker = next(
        name for key in ("from", "by", "bold", "who", "square") if (name := match[key]) is not None
    )
    if _NOBODY.match(speaker):
        return None
    to = match["to"] or match["whom"] or ""
    return _Turn(at, speaker, to, match["rest"], sure=bool(match["time"] or to))


def _looks_like_a_name(speaker: str) -> bool:
    return speaker[0].isupper() or speaker.lower() in _CHAT_WORDS


def _fenced(lines: list[str]) -> list[bool]:
    """For each line whether it stands in a fenced block that is closed."""
    marks = [at for at, line in enumerate(lines) if _FENCE.match(line) and line.count("```") % 2]
    fenced = [False] * len(lines)
    for first, last in zip(marks[::2], marks[1::2], strict=False):
        fenced[first : last + 1] = [True] * (last + 1 - first)
    return fenced
