"""Ignored input: a comment names a thing that must change, and it comes back unchanged.

A comment is a check that failed and says why, or a message of a role that by its name checks and
demands a change. It names an artifact or its author (the target `Compose of writer`), or a file or
a name that stands in the author's last code. The author then hands in that artifact, or that code,
again as it was (white space apart), and does not answer. An answer is what it says before somebody
else acts: anything new that takes up a word of the comment, or that is longer than a word on
handing something in.

Other input can be ignored in ways that leave no such trace, so the mode is never called absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rolecraft.failure_taxonomy.detectors.base import Detector
from rolecraft.failure_taxonomy.fenced import code_in, without_code
from rolecraft.failure_taxonomy.view import (
    OUTSIDE,
    TraceView,
    fingerprint,
    is_constraint,
    sounds_like_check,
)
from rolecraft.trajectories.events import Event, FailureFinding

MODE = "ignored_input"

_DEMAND = re.compile(
    r"\b(?:please|must|should|needs? to|has to|have to)\s+(?:be\s+)?(?:add|chang|check|correct|fix|"
    r"handl|mend|mov|remov|renam|replac|rewr|split|us)\w*|\bnot accepted\b|\bto change:|"
    r"\b(?:could|can|would) you (?:add|change|fix|handle|move|remove|rename|replace|rewrite)\b|"
    r"\bthere (?:is|are) (?:an? |two |three |some |still )?(?:bug|error|mistake|problem|issue)s?\b|"
    r"\bis (?:wrong|incorrect|missing|broken)\b|"
    r"\bdoes(?: not|n't) (?:handle|work|compile|check|return)\b",
    re.IGNORECASE,
)
_HINTS = (
    "lease",
    "must",
    "hould",
    "need",
    "ave to",
    "as to",
    "ot accepted",
    "o change:",
    "is wrong",
    "is incorrect",
    "is missing",
    "is broken",
    "you ",
    "here is",
    "here are",
    "does",
)
"""One of these stands in every demand; `in` is much faster than the expression."""
_PRAISE = re.compile(r"\b(?:accepted|approved|lgtm|looks good|well done)\b", re.IGNORECASE)
_NAME = re.compile(r"[\w./-]{3,}")
_WORD = re.compile(r"\w{4,}")
_EMPTY = """
about after also been before change changed code comment done file fixed from have here into just
line made make more must need next please ready should that their them then there these this version
want what when where which will with work would your again
"""
_EMPTY_WORDS = frozenset(_EMPTY.split())
MOST = 50
"""So many comments are looked after at a time."""
ANSWER = 60
"""Prose of so many characters is an answer, whatever its words: handing something in takes less."""
SHORTEST_BLOCK = 40
"""Code of fewer characters may well be the same twice for good reason."""


@dataclass(frozen=True, slots=True)
class Comment:
    """What somebody demanded of a thing: an artifact's name, or the fingerprint of code."""

    at: int
    event: Event
    thing: str
    state: str | bytes
    author: str


class IgnoredInput(Detector):
    """Finds `ignored_input` where comments and the versions that they are about are on record."""

    name = "detector.ignored_input"
    modes = (MODE,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        found = [
            self.present(
                MODE,
                [again, comment.event],
                role=again.role,
                quote_of=again,
                reason=(
                    f"`{comment.event.role}` asked for a change of `{comment.thing}` at event "
                    f"{comment.event.seq}; `{again.role}` handed it in unchanged and did not answer"
                ),
            )
            for comment, again in _ignored(view)
        ]
        return found or [
            self.unknown(MODE, "no comment on record names a thing that came back unchanged")
        ]


def _ignored(view: TraceView) -> Iterator[tuple[Comment, Event]]:
    """Comments, each with the event in which what it is about came back as it was."""
    made: dict[str, tuple[str, str]] = {}  # artifact: its content's hash, and who made it
    code: dict[str, str] = {}  # role: the text with its last code
    waiting: list[Comment] = []
    for at, event in enumerate(view.events):
        if event.kind == "artifact" and event.artifact is not None:
            name, sha = event.artifact.name, event.artifact.sha256
            for comment in [c for c in waiting if c.thing == name and c.author == event.role]:
                if comment.state == sha and not _answered(view, comment, at):
                    yield comment, event
            waiting = [c for c in waiting if c.thing != name]
            made[name] = sha, event.role
        elif event.kind == "message" and event.role in view.team:
            parts = code_in(event.content)
            if sum(map(len, parts)) >= SHORTEST_BLOCK:
                mine = [c for c in waiting if c.author == event.role]
                state = fingerprint(*parts) if mine else b""
                for comment in mine:
                    if comment.state == state and not _answered(view, comment, at):
                        yield comment, event
                waiting = [c for c in waiting if c.author != event.role or isinstance(c.state, str)]
                code[event.role] = event.content
        if _is_comment(event):
            said = [c for c in _about(event, at, made, code) if c.author != event.role]
            again = {(event.role, c.thing) for c in said}
            waiting = [c for c in waiting if (c.event.role, c.thing) not in again] + said
            del waiting[:-MOST]
        elif event.kind == "verify" and event.data.get("passed") is True:
            waiting = [c for c in waiting if c.event.role != event.role]


def _is_comment(event: Event) -> bool:
    if event.role in OUTSIDE or not event.content.strip():
        return False
    if event.kind == "verify":
        return event.data.get("passed") is False and not is_constraint(event)
    return (
        event.kind == "message"
        and sounds_like_check(event.role)
        and any(hint in event.content for hint in _HINTS)
        and _DEMAND.search(event.content) is not None
        and (_PRAISE.search(event.content) is None or "ot accepted" in event.content)
    )


def _about(
    event: Event, at: int, made: dict[str, tuple[str, str]], code: dict[str, str]
) -> Iterator[Comment]:
    """What a comment is about: artifacts that it names, else code of which it names a part."""
    target = str(event.data.get("target")) if event.kind == "verify" else ""
    named = {word.strip(".-/") for word in _NAME.findall(event.content)} | {target}
    for name in sorted(named & made.keys()):
        sha, author = made[name]
        yield Comment(at, event, name, sha, author)
    if named & made.keys():
        return
    whose = target.rpartition(" of ")[2]  # how a review names the work that it is about
    for name, (sha, author) in made.items():
        if author == whose:
            yield Comment(at, event, name, sha, author)
    for name in dict.fromkeys(re.findall(r"`([^`\n]{3,80})`|\b([\w/]+\.\w{1,4})\b", event.content)):
        part = name[0] or name[1]
        for author, text in code.items():
            if part in text and author != event.role:
                yield Comment(at, event, part, fingerprint(*code_in(text)), author)
                return


def _answered(view: TraceView, comment: Comment, at: int) -> bool:
    """True if the author answered, or may still do so: its turn is not over."""
    about = _telling(comment.event.content) - _telling(comment.thing)
    said_before = {
        view.texts[earlier]
        for earlier in range(max(0, comment.at - 500), comment.at)
        if view.events[earlier].role == comment.author
    }
    over = False
    for later in range(comment.at + 1, len(view.events)):
        event = view.events[later]
        if (
            later > at
            and event.kind in ("message", "action", "stop")
            and event.role != comment.author
        ):
            over = True
            break
        if event.role != comment.author or event.kind not in ("message", "thought", "verify"):
            continue
        if view.texts[later] in said_before:
            continue
        prose = without_code(event.content)
        if len(prose.strip()) >= ANSWER or about & _telling(prose):
            return True
    return not over


def _telling(text: str) -> set[str]:
    """The words of a text that say what it is about."""
    return {word.lower() for word in _WORD.findall(text[:4000])} - _EMPTY_WORDS
