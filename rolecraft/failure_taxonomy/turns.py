"""Turns of the logs of others, in which what a role says may be all that shows a step.

Three kinds of turn are steps. Code that is written to be run or delivered; a request that one
role hands to another (a subgoal); and a text that is too long to come again by custom. Two such
turns of one role are the same if the code, the request or the text is, white space apart;
requests and texts also if only a few words between the names and numbers differ. A request is
made again only if its receiver has done something since. Short texts (courtesies,
acknowledgements, "Continue.") are no steps, nor is what a program says that has one text for
everything, nor what a logger with several handlers wrote several times.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from typing import Any

from rolecraft.failure_taxonomy.fenced import code_in
from rolecraft.failure_taxonomy.steps import Step, may_change
from rolecraft.failure_taxonomy.view import TraceView, fingerprint, has_any
from rolecraft.trajectories.events import Event

OWN_WORDS = 40
"""A text of so many words is a paragraph: nobody says it twice by custom."""
THOUGHT_WORDS = 25
"""The same for thoughts, which are said to nobody and so not by custom."""
REQUEST_WORDS = 8
"""A shorter request ("Please go on") names no work of its own."""
CODE = 16
"""Shorter code (in characters) is a mention, not work."""
ALIKE = 0.9
"""Two texts are one if so great a share of their words is common, and all names and numbers."""
HEAD, COMPARED = 5, 4
"""A paragraph is compared with so many earlier ones that have so many first words in common."""
REMEMBERED = 16
"""A request is compared with so many earlier ones to the same role."""

TWICE = 0.8
"""A logger with several handlers writes at least so great a share of all turns equally often."""
TEXT = "the text"
"""Name of a step that is a long text."""

_PROGRAM = re.compile(
    "console|environment|executor|interpreter|proxy|sandbox|system|terminal|tool", re.IGNORECASE
)
"""Names of roles that may be no model but a program."""
_REQUEST = re.compile(
    r"^[ \t>*#]*(?:[Ss]ub-?goal|[Ss]ub-?task)[ \t*]*:[ \t*]*",
    re.MULTILINE,
)
_REQUEST_WORDS = ("goal", "task")
_TO = re.compile(r"^[ \t>*#]*(?:intern(?: name)?|assignee|agent)[ \t*]*:[ \t*]*(.+)$", re.I | re.M)
_WORD = re.compile(r"\w+(?:[./:_-]\w+)*")
_NAME = re.compile(r"\d|[._/:-]|[a-z][A-Z]")


class Wording:
    """A text for comparing: its words, and which of them are names or numbers."""

    __slots__ = ("at", "names", "text", "words")

    def __init__(self, text: str, at: int = -1) -> None:
        self.text = text
        self.at = at
        """Where it was last said."""
        found = _WORD.findall(text)
        self.words = frozenset(word.lower() for word in found)
        self.names = frozenset(word for word in found if _NAME.search(word))

    def like(self, other: Wording) -> bool:
        """True if nothing but a few words differ, and no name or number."""
        if self.names != other.names:
            return False
        common = len(self.words & other.words)
        return common >= ALIKE * len(self.words | other.words)


class _Text:
    """A long text that a role has said."""

    __slots__ = ("added", "at", "event", "key", "wording")

    def __init__(self, event: Event, at: int, key: bytes) -> None:
        self.event, self.at, self.key = event, at, key
        self.added = False
        """Whether it is a step: it is once it was said again."""
        self.wording: Wording | None = None

    def words(self) -> Wording:
        self.wording = self.wording or Wording(self.event.content)
        return self.wording


def find_turns(view: TraceView) -> list[Step]:
    """The turns of the team that are steps; none in a record of our own."""
    return [] if view.ours else _Turns(view).steps


class _Turns:
    def __init__(self, view: TraceView) -> None:
        self.view = view
        self.steps: list[Step] = []
        self._requests: dict[tuple[str, ...], deque[Wording]] = defaultdict(
            lambda: deque(maxlen=REMEMBERED)
        )
        self._texts: dict[tuple[object, ...], list[_Text]] = {}
        self._acted: dict[str, int] = {}
        self._written: dict[str, str] = {}
        """Who wrote a block of code first."""
        self._first = next((at for at, e in enumerate(view.events) if e.kind == "message"), -1)
        leading = {e.cause for e in view.events if e.kind in ("tool_call", "tool_result")}
        twice = logged_twice(view)
        for at, event in enumerate(view.events):
            if event.role not in view.team or (twice and event.data.get("again")):
                self._own_code(event, at)
                continue
            if event.kind == "tool_call":
                self._call(event, at)
            elif event.kind in ("message", "thought"):
                if event.seq not in leading:  # what it leads to is the step
                    self._said(event, at)
            elif event.kind == "tool_result" and event.data.get("tool") == event.role:
                self._text(event, at)  # what a role reports to whom it works for
            self._acted[event.role] = at
        automatic = answering_machines(view)
        self.steps = [s for s in self.steps if s.name != TEXT or s.role not in automatic]
        self.steps.sort(key=lambda step: step.start)

    def _said(self, event: Event, at: int) -> None:
        asked = None
        if "ub" in event.content and has_any(event.content, _REQUEST_WORDS):  # else no regex
            asked = _REQUEST.search(event.content)
        if asked is not None:
            named = _TO.search(event.content)
            receiver = named[1].strip() if named else ",".join(event.to)
            if self._request(event, at, receiver, event.content[asked.end() :]):
                return
        code = "\0".join(self._own_code(event, at))
        if len(code.strip()) >= CODE:
            key = fingerprint("code", event.kind, event.role, code)
            self._add(event, at, "the code", key, reads=not may_change(code, event.role))
            return
        self._text(event, at)

    def _own_code(self, event: Event, at: int) -> list[str]:
        """The blocks that nobody else wrote before, nor the task: those are quoted."""
        task = "" if at == self._first else event.role
        return [
            block
            for block in code_in(event.content)
            if self._written.setdefault(block.strip(), task) == event.role
        ]

    def _text(self, event: Event, at: int) -> None:
        enough = THOUGHT_WORDS if event.kind == "thought" else OWN_WORDS
        if len(event.content) < 2 * enough:
            return
        said = _Text(event, at, self.view.texts[at])
        head = (event.kind, event.role, event.to, *event.content.split(None, HEAD)[:HEAD])
        earlier = self._texts.get(head)
        if earlier is None:
            self._texts[head] = [said]
        exactly = said.key in self.view.said_again
        if not exactly and earlier is None:
            return  # nothing is like it so far
        if len(event.content.split(None, enough - 1)) < enough:
            return
        if exactly:
            self._add_text(said)
        elif earlier is not None:
            like = next((each for each in earlier if each.words().like(said.words())), None)
            if like is not None:
                if not like.added:
                    self._add_text(like)
                said.key = like.key
                self._add_text(said)
        if earlier is not None:
            earlier.append(said)
            del earlier[:-COMPARED]

    def _add_text(self, said: _Text) -> None:
        said.added = True
        event = said.event
        key = fingerprint("text", event.kind, event.role, *event.to) + said.key
        self._add(event, said.at, TEXT, key)

    def _call(self, event: Event, at: int) -> None:
        """A call whose tool is a role hands that role a request."""
        receiver = str(event.data.get("tool"))
        if receiver in self.view.team:
            self._request(event, at, receiver, as_text(event.data.get("arguments")))

    def _request(self, event: Event, at: int, receiver: str, text: str) -> bool:
        request = Wording(text, at)
        if len(request.words) < REQUEST_WORDS:
            return False
        earlier = self._requests[event.kind, event.role, receiver]
        known = next((other for other in earlier if other.like(request)), None)
        if known is None:
            earlier.append(request)
        else:
            before, known.at = known.at, at
            if self._acted.get(receiver, before) < before:
                return True  # nobody has answered it yet
        key = fingerprint("request", event.kind, event.role, receiver, (known or request).text)
        self._add(event, at, f"the request to `{receiver}`", key)
        return True

    def _add(self, event: Event, at: int, name: str, key: bytes, *, reads: bool = True) -> None:
        step = Step(event.role, "turn", name, key, at, at)
        step.left.append(b"said")
        step.finished, step.reads = True, reads
        self.steps.append(step)


def as_text(arguments: Any) -> str:
    if isinstance(arguments, dict):
        return "\n".join(map(str, arguments.values()))
    return str(arguments)


def answering_machines(view: TraceView) -> frozenset[str]:
    """Roles whose names are those of programs and whose messages are all one text."""
    said: dict[str, set[str]] = defaultdict(set)
    for event in view.events:
        if event.kind == "message" and len(said[event.role]) < 2:
            said[event.role].add(event.content[:200])
    return frozenset(
        role for role, texts in said.items() if len(texts) == 1 and _PROGRAM.search(role)
    )


def logged_twice(view: TraceView) -> bool:
    """True if a logger wrote everything several times: importers mark what is repeated `again`.

    A role that is stuck repeats one of its turns, a logger with two handlers all of them.
    """
    if not view.about.get("repeated"):
        return False
    runs: list[int] = []
    for event in view.events:
        if event.kind in ("message", "thought") and event.role in view.team:
            if event.data.get("again") and runs:
                runs[-1] += 1
            else:
                runs.append(1)
    times, number = max(Counter(runs).items(), key=lambda run: run[1], default=(1, 0))
    return times > 1 and number >= TWICE * len(runs)
