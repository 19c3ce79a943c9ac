"""What an event says in its own words: no code, no quotations, sentence by sentence.

For rules that look for what a role claims or announces. Such a rule first asks with `in` whether
the words can occur at all: that is a hundred times as fast as an expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rolecraft.failure_taxonomy.fenced import without_code
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.events import Event

LONGEST = 20_000
"""Of a longer text (in characters), the first and the last half of this are read."""

_QUOTED = re.compile(
    r"^[ \t]*>[^\n]*$|\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|«[^»\n]{1,300}»", re.MULTILINE
)
QUESTION = re.compile(r"[?？]\s*$")
"""What ends in a question."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def prose(text: str) -> str:
    """The text without fenced code and without what it quotes."""
    text = without_code(text)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"
    return _QUOTED.sub("…", text)


def sentences(text: str) -> list[str]:
    """The sentences of a text's prose; a line of its own is a sentence."""
    return [part.strip() for part in _SENTENCE.split(prose(text)) if part.strip()]


def own_words(view: TraceView) -> Iterator[tuple[int, Event]]:
    """Positions and events in which a role of the team speaks for itself.

    Where the trace has model calls, a role speaks in these and in its thoughts: what else is in
    its messages was put there by a program. A trace without any has messages only.
    """
    asked = any(event.kind == "model_call" for event in view.events)
    kinds = ("model_call", "thought") if asked else ("message", "thought")
    for at, event in enumerate(view.events):
        if event.kind in kinds and event.content and event.role in view.team:
            yield at, event
