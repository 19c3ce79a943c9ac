"""Evidence: which text of an event can be quoted, and whether a quote is really there.

Invariant: what a judge is shown of an event, what a finding may quote of it and what a quote is
checked against are one text, `quotable(event)`. It is made from a list of allowed fields, so a
label or a measured outcome that some program stored in an event is in none of the three.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from rolecraft.failure_taxonomy.modes import get_mode
from rolecraft.trajectories.events import Event, EventKind, FailureFinding

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
"""A value as the journal has it."""

_DATA: dict[EventKind, tuple[str, ...]] = {
    "action": ("action", "fields"),
    "tool_call": ("tool", "arguments"),
    "verify": ("target", "passed"),
    "action_swap": ("actions",),
    "limit": ("limit", "allowed", "used"),
    "stop": ("reason",),
}
"""The fields of `data` that are an event's own deed, by kind. Other kinds have their `content`."""

MIN_QUOTE = 4
"""A shorter quote (in characters, without spaces) proves nothing, unless it is the whole text."""


def quotable(event: Event) -> str:
    """The text of an event that may be quoted: its content, then its deed, one field a line.

    A field is written as `"name":value`, in JSON exactly as the journal has it, so each line of
    the text stands verbatim in the event's journal line (JSON escapes apart).
    """
    return "\n".join([*([event.content] if event.content else []), *_deed(event)])


def _deed(event: Event) -> list[str]:
    lines = [
        f"{encode(key)}:{encode(event.data[key])}"
        for key in _DATA.get(event.kind, ())
        if key in event.data
    ]
    if event.artifact is not None:
        lines.append(f'"name":{encode(event.artifact.name)}')
    return lines


def excerpt(event: Event, length: int = 200) -> str:
    """The first `length` characters of an event's content, or the first line of its deed.

    Where these are too short to be a quote it is the whole text; in any case `find_quote` finds
    it in the event, unless there is nothing to quote.
    """
    text = quotable(event)
    for part in (event.content, *_deed(event)[:1]):
        start = part.strip()[:length].rstrip()
        if find_quote(start, text) is not None:
            return start
    return text.strip()


def find_quote(quote: str, text: str) -> str | None:
    """The part of `text` that `quote` repeats, or None.

    Runs of white space count as equal, everything else must be verbatim. What is returned is the
    text's own wording, not the quote's.
    """
    words = quote.split()
    if not words:
        return None
    if sum(map(len, words)) < MIN_QUOTE and words != text.split():
        return None
    if (verbatim := quote.strip()) in text:
        return verbatim
    # Not a pattern with `\s+` between the words: on a text that nearly repeats itself it would
    # take the time of the text times the quote.
    plain = " ".join(text.split())
    at = plain.find(" ".join(words))
    if at < 0:
        return None
    first = plain.count(" ", 0, at)
    places = islice(re.finditer(r"\S+", text), first, first + len(words))
    spans = [place.span() for place in places]
    start = spans[0][0] + at - (plain.rfind(" ", 0, at) + 1)
    last = spans[-1][0] if len(words) > 1 else start
    return text[start : last + len(words[-1])]


def verified(
    finding: FailureFinding,
    events: Mapping[int, Event],
    *,
    shown: Mapping[int, Sequence[str]] | None = None,
    silent: Collection[str] = (),
    fact: bool = False,
) -> FailureFinding | str:
    """`finding` with its quote in the event's own wording; or, as a str, why it does not hold.

    A `present` must name events among `events` (by seq), quote one of them unless its mode is an
    absence, and name as role who made the quoted event. An absence without a quote must name the
    author of one of its events, if these have any, or a role that did nothing (`silent`).

    `shown` holds by seq the texts in which a quote may stand, if not in all of an event. A `fact`
    was measured by a program, which says who is answerable; a measurement has nothing to quote.
    """
    if finding.verdict != "present":
        return finding
    if not finding.events:
        return "names no event"
    missing = [seq for seq in finding.events if seq not in events]
    if missing:
        return f"names event {missing[0]}, which does not exist"
    named = [events[seq] for seq in finding.events]
    if not finding.quote.strip():
        if fact:
            return replace(finding, quote="")
        if not get_mode(finding.mode).absence:
            return "has no quote"
        by_one = finding.role in silent or any(
            _is_by(event, finding.role, events) for event in named
        )
        if not by_one:
            return f"names the role {finding.role!r}, which made none of its events"
        return replace(finding, quote="")
    quoted = [
        (event, words)
        for event in named
        for text in (shown.get(event.seq, ()) if shown is not None else (quotable(event),))
        if (words := find_quote(finding.quote, text)) is not None
    ]
    if not quoted:
        return "quotes what none of its events says"
    for event, words in quoted:
        if fact or _is_by(event, finding.role, events):
            return replace(finding, quote=words)
    return f"names the role {finding.role!r}, but {quoted[0][0].role!r} made the quoted event"


def _is_by(event: Event, role: str, events: Mapping[int, Event]) -> bool:
    """True if `role` made the event; of an event that nobody made, if it is nobody or exists."""
    if event.role:
        return event.role == role
    return not role or any(other.role == role for other in events.values())
