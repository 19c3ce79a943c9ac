"""A judge that looks at a whole long trace with tools: list, read, search.

Some failures show in no window: that something never happened, that the talk fell back to an old
state, that the work went on after its end. For these the judge gets its own notes and claims, and
tools to look wherever it wants. Invariant: only text that a tool has brought up can be evidence,
and what tools bring up stands in the same fence as a record.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rolecraft.errors import BadModelResponse, ModelError, ModelUnavailable, UsageError
from rolecraft.failure_taxonomy.evidence import quotable
from rolecraft.failure_taxonomy.judging.answers import Answer, no_answer, read_answer
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.failure_taxonomy.judging.merging import Said
from rolecraft.failure_taxonomy.judging.prompt import (
    NOTES,
    write_record,
    write_system,
)
from rolecraft.failure_taxonomy.modes import Mode
from rolecraft.failure_taxonomy.windows import Piece, head_of
from rolecraft.messages import Message, ToolCall
from rolecraft.models.base import Tool
from rolecraft.models.fence import fence, make_marker
from rolecraft.trajectories.events import Event, Usage

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy.judging.reading import Record

ROUNDS = 16
"""So many times the judge may call tools before it has to answer."""
TEXT = 200_000
"""Characters of the trace that tools show in one search, all calls together."""
AT_ONCE = 20_000
"""Characters that one call shows at most."""
BEGINNING = 160
"""Characters that a list shows of an event, and a search on either side of what it found."""
LISTED = 100
FOUND = 20


def _tool(name: str, description: str, required: Sequence[str], **fields: str) -> Tool:
    properties = {
        field: {"type": kind.split(":")[0], "description": kind.partition(": ")[2]}
        for field, kind in fields.items()
    }
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name=name, description=description, parameters=parameters)


TOOLS = (
    _tool(
        "list_events",
        f"Events in their order, up to {LISTED}, with the first words of each.",
        (),
        first="integer: number of the event to begin with; the first by default",
        role="string: only events of this role",
        kind="string: only events of this kind, such as message, tool_call, artifact, stop",
    ),
    _tool(
        "read_event",
        f"The text of one event, up to {AT_ONCE} characters.",
        ("event",),
        event="integer: number of the event",
        start="integer: character to begin with; 0 by default",
    ),
    _tool(
        "search_events",
        f"Where words stand, in up to {FOUND} events; case and white space do not matter.",
        ("text",),
        text="string: the words",
        first="integer: number of the event to begin with; the first by default",
    ),
)


class Search:
    """One conversation with tools about the whole of `record`."""

    def __init__(
        self, asker: Asker, record: Record, modes: Sequence[Mode], *, seed: int, source: str
    ) -> None:
        self.asker = asker
        self.record = record
        self.modes = modes
        self.seed = seed
        self.source = source
        self.shown: dict[int, list[str]] = {}
        """What tools brought up, by event."""
        self.usage = Usage(calls=0)
        self.fault = ""
        """Why nothing was searched."""
        self._texts: dict[int, str] = {}
        self._left = TEXT
        self._marker = ""

    async def ask(self, digest: str, claims: Mapping[str, Said], *, shots: int) -> Answer:
        """The answer after looking around, its evidence not yet checked."""
        asked = [mode.id for mode in self.modes]
        about = [Piece(NOTES, digest), Piece("claims made from single parts", self._told(claims))]
        pieces = [*self.record.preamble, *(piece for piece in about if piece.text)]
        await asyncio.to_thread(self._prepare, pieces)
        conversation = self.asker.open(
            system=write_system(self.modes, marker=self._marker, shots=shots, tools=True),
            seed=self.seed,
            trace=self.record.view.trajectory.id,
        )
        new = [Message(write_record(self.modes, pieces, marker=self._marker))]
        looked = False
        for left in reversed(range(ROUNDS + 1)):
            try:
                completion = await conversation.ask(*new, tools=TOOLS)
            except (ModelError, UsageError) as error:
                if isinstance(error, ModelError) and type(error) not in _NO_TOOLS:
                    raise
                self.usage = self.usage + (getattr(error, "usage", None) or Usage(calls=0))
                return self._none(f"the model did not take up tools: {error}")
            self.usage = self.usage + completion.usage
            if not completion.tool_calls:
                break
            looked = True
            calls = completion.tool_calls
            new = await asyncio.to_thread(lambda calls: [*map(self._result, calls)], calls)
            if left == 1:
                new.append(Message("That was the last call. Answer now, in the form described."))
        if not looked:
            return self._none("the model called no tool")
        answer = read_answer(completion, marker=self._marker, asked=asked, source=self.source)
        if not answer.usable:
            self.fault = next(row for row in answer.rows.values() if isinstance(row, str))
        return answer

    def _prepare(self, pieces: Sequence[Piece]) -> None:
        """Read the whole trace, for tools and for a marker that nothing of it contains."""
        self._texts = {seq: quotable(event) for seq, event in self.record.events.items()}
        everything = [*(f"{p.head}\n{p.text}" for p in pieces), *self._texts.values()]
        everything += map(head_of, self.record.events.values())
        self._marker = make_marker("\n".join(everything), self.record.seed)

    def _none(self, reason: str) -> Answer:
        self.fault = reason
        return no_answer([mode.id for mode in self.modes], reason)

    def _told(self, claims: Mapping[str, Said]) -> str:
        """What the windows came to about each mode, as data."""
        lines: list[str] = []
        for mode in (mode.id for mode in self.modes):
            said = claims[mode]
            if isinstance(said, str):
                lines.append(f"{mode}: unknown, {said}")
                continue
            for row in said[:FOUND]:
                where = f", {row.role or 'nobody'} at {list(row.events)}" if row.events else ""
                lines.append(f"{mode}: {row.verdict}{where}. {row.reason}".strip())
        return "\n".join(lines)

    # --- tools --------------------------------------------------------------------------------

    def _result(self, call: ToolCall) -> Message:
        try:
            text = self._run(call)
        except _BadCall as error:
            text = f"Error: {error}"
        return Message(text, role="tool", metadata={"tool_call_id": call.id})

    def _run(self, call: ToolCall) -> str:
        if call.incomplete:
            raise _BadCall("the arguments are no JSON object.")
        if self._left <= 0:
            raise _BadCall("no more text can be shown; answer with what you have seen.")
        given = call.arguments
        if call.name == "list_events":
            return self._list(_int(given, "first"), _str(given, "role"), _str(given, "kind"))
        if call.name == "read_event":
            if "event" not in given:
                raise _BadCall("`event` is missing.")
            return self._read(_int(given, "event"), max(_int(given, "start"), 0))
        if call.name == "search_events":
            return self._search(_str(given, "text"), _int(given, "first"))
        raise _BadCall(f"the tools are {', '.join(tool.name for tool in TOOLS)}.")

    def _list(self, first: int, role: str, kind: str) -> str:
        named = [
            event
            for event in self._from(first)
            if (not role or event.role == role) and (not kind or event.kind == kind)
        ]
        pieces = [self._piece(event, 0, BEGINNING) for event in named[:LISTED]]
        return self._fenced(pieces, named[LISTED:])

    def _read(self, seq: int, start: int) -> str:
        event = self.record.events.get(seq)
        if event is None:
            raise _BadCall(f"there is no event {seq}; `list_events` shows which there are.")
        text = self._texts[seq]
        if start and start >= len(text):
            raise _BadCall(f"event {seq} has {len(text)} characters only.")
        return self._fenced([self._piece(event, start, start + min(AT_ONCE, self._left))], ())

    def _search(self, words: str, first: int) -> str:
        if not 2 <= len(words.strip()) <= 500:
            raise _BadCall("`text` has 2 to 500 characters.")
        plain = " ".join(words.lower().split())
        places = ((event, _place(plain, self._texts[event.seq])) for event in self._from(first))
        hits = [(event, place) for event, place in places if place is not None]
        pieces = [
            self._piece(event, max(start - BEGINNING, 0), end + BEGINNING)
            for event, (start, end) in hits[:FOUND]
        ]
        return self._fenced(pieces, [event for event, _ in hits[FOUND:]])

    def _from(self, first: int) -> Iterable[Event]:
        return (event for seq, event in self.record.events.items() if seq >= first)

    def _piece(self, event: Event, start: int, end: int) -> Piece:
        """A part of an event, which from now on may be quoted."""
        text = self._texts[event.seq]
        part = text[start:end]
        self.shown.setdefault(event.seq, []).append(part)
        self._left -= len(part)
        head = head_of(event)
        if len(part) < len(text):
            head += f" (characters {start} to {start + len(part)} of {len(text)})"
        return Piece(head, part, event)

    def _fenced(self, pieces: Sequence[Piece], rest: Sequence[Event]) -> str:
        if not pieces:
            return "No event."
        more = f"\n\n{len(rest)} more, from event {rest[0].seq} on." if rest else ""
        return fence(pieces, self._marker) + more


_NO_TOOLS = (ModelUnavailable, BadModelResponse, ModelError)
"""What servers say that know no tools; a `ModelError` of another kind means something else."""


def _place(plain: str, text: str) -> tuple[int, int] | None:
    """Where `plain`, lower case and with single spaces, stands in a text; None if nowhere.

    Not found by a pattern: on a text that nearly repeats itself that takes the time of the text
    times the words. Rare letters whose lower case is longer may put it off by a few characters.
    """
    folded = " ".join(text.lower().split())
    at = folded.find(plain)
    if at < 0:
        return None
    first, more = folded.count(" ", 0, at), plain.count(" ")
    spans = [word.span() for word in islice(re.finditer(r"\S+", text), first, first + more + 1)]
    start = spans[0][0] + at - (folded.rfind(" ", 0, at) + 1)
    return start, (spans[-1][0] if more else start) + len(plain) - (plain.rfind(" ") + 1)


class _BadCall(Exception):
    """A call that makes no sense; the message tells the judge, and repeats nothing of a trace."""


def _int(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _BadCall(f"`{name}` is a whole number.")
    return value


def _str(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise _BadCall(f"`{name}` is a text.")
    return value
