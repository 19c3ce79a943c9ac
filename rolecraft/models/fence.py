"""Foreign text in a question: as data, behind a fence whose marker it cannot contain.

    marker = make_marker("\\n".join(texts), seed)
    question = f"… {fence([Piece('the answer', text)], marker)} …"

Who asks a model about something that others wrote puts it inside, and only constant text outside.
The marker opens and closes the fence and begins the head of every piece, so that nothing inside
can end the fence or begin a piece, whatever it says.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple, Protocol

from rolecraft.models.defused import defuse


class Fenced(Protocol):
    """A text, and in one line what it is."""

    @property
    def head(self) -> str: ...
    @property
    def text(self) -> str: ...


class FencedText(NamedTuple):
    """The plainest `Fenced`."""

    head: str
    text: str


def make_marker(text: str, seed: int) -> str:
    """A marker that does not occur in `text`; the same for the same text and seed."""
    attempt = 0
    while True:
        salted = f"{seed}/{attempt}/{text}".encode("utf-8", "surrogatepass")
        marker = blake2b(salted, digest_size=5).hexdigest()
        if marker not in text:
            return marker
        attempt += 1


def fence(pieces: Iterable[Fenced], marker: str) -> str:
    """The pieces as data: the only way in which foreign text gets into a question."""
    text = "\n\n".join(f"{marker} {piece.head}\n{piece.text}" for piece in pieces)
    return f"<<< {marker} begin\n{defuse(text)}\n{marker} end >>>"
