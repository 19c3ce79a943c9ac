"""Evidence: which text of an event can be quoted, and whether a quote is really there.

Invariant: what a judge is shown of an event, what a finding may quote of it and what a quote is
checked against are one text, `quotable(event)`. It is made from a list of allowed fields, so a
label or a measured outcome that some program stored in an event is in none of the three.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from rolecraft.failure_taxonomy.modes import get_mode
from rolecraft.trajectories.events import Event, EventKind, FailureFinding

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode

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
    lines = [event.content] if event.content else []
    lines += [
        f"{_encode(key)}:{_encode(event.data[key])}"
        for key in _DATA.get(event.kind, ())
        if key in event.data
    ]
    if event.artifact is not None:
        lines.append(f'"name":{_encode(event.artifact.name)}')
    return "\n".join(lines)


def excerpt(event: Event, length: int = 200) -> str:
    """The first `length` characters of an event's content, or the first line of its deed."""
    text = event.content.strip() or quotable(event).strip().split("\n", 1)[0]
    return text[:length].rstrip()


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
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return found.group() if found else None


def verified(
    finding: FailureFinding, events: Mapping[int, Event], *, author: bool = True
) -> FailureFinding | str:
    """`finding` with its quote in the event's own wording; or, as a str, why it does not hold.

    A `present` must name events among `events` (by seq), quote one of them unless its mode is an
    absence, and, with `author`, name as role who made the quoted event. An absence without a
    quote must name the author of one of its events, if these have any.
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
        if not get_mode(finding.mode).absence:
            return "has no quote"
        if author and not any(_is_by(event, finding.role, events) for event in named):
            return f"names the role {finding.role!r}, which made none of its events"
        return replace(finding, quote="")
    quoted = [
        (event, words)
        for event in named
        if (words := find_quote(finding.quote, quotable(event))) is not None
    ]
    if not quoted:
        return "quotes what none of its events says"
    for event, words in quoted:
        if not author or _is_by(event, finding.role, events):
            return replace(finding, quote=words)
    return f"names the role {finding.role!r}, but {quoted[0][0].role!r} made the quoted event"


def _is_by(event: Event, role: str, events: Mapping[int, Event]) -> bool:
    """True if `role` made the event; for an event that nobody made, if the role exists."""
    if event.role:
        return event.role == role
    return bool(role) and any(other.role == role for other in events.values())
