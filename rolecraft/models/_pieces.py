"""From tokens to text while they are still being sampled.

Invariant: what has been said is a prefix of the answer's text as it will be, so nothing has to be
taken back. A character that is not complete yet, and tokens that could be the beginning of a stop
string, are held back until more is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from rolecraft.models._stops import Stops
from rolecraft.models.base import RESET

_INCOMPLETE = "\ufffd"
"""What a tokenizer's decoder writes for bytes that are no character yet."""


class Pieces:
    """Hears the tokens sampled so far, and says what they add to the text.

    `decode` makes the text; `spelled` makes the one in which stop strings are looked for (see
    `_stops`), the same if left out. Only the last tokens are decoded again: those since `_said`,
    and the ones before them that decoders need to see for the space between.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        say: Callable[[str], None],
        *,
        stop: Sequence[str] = (),
        spelled: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        self._decode, self._say = decode, say
        self._stops = Stops(stop, spelled or decode) if stop else None
        self._heard = 0
        """Tokens up to here have been heard."""
        self._before = 0
        """Tokens up to here are no longer looked at."""
        self._said = 0
        """Tokens up to here are said."""
        self._over = False

    def __call__(self, sampled: Sequence[int]) -> None:
        if self._over:
            return
        rest = ""
        if self._stops is not None:
            heard, self._heard = self._heard, len(sampled)
            count, rest, self._over = self._stops.before(sampled, heard)
            if count < self._said:
                return
            sampled = sampled[:count]
        known = self._decode(sampled[self._before : self._said])
        text = self._decode(sampled[self._before :])
        if (text.endswith(_INCOMPLETE) and not rest) or not text.startswith(known):
            return
        if len(text) > len(known):  # else there is nothing to see between it and what follows
            self._before = self._said
        self._said = len(sampled)
        if text := text[len(known) :] + rest:
            self._say(text)


def posting(
    deliver: Callable[[str], None], deliver_anew: Callable[[], None]
) -> Callable[[str], None]:
    """`deliver`, in the thread of the running event loop, whichever thread calls."""
    loop = asyncio.get_running_loop()

    def post(piece: str) -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            if piece == RESET:
                loop.call_soon_threadsafe(deliver_anew)
            else:
                loop.call_soon_threadsafe(deliver, piece)

    return post


def trimming(
    say: Callable[[str], None], think: Callable[[str], None]
) -> tuple[Callable[[str], None], Callable[[str], None]]:
    """`say` and `think`, with the line breaks between reasoning and text left out."""
    thought = said = False

    def say_trimmed(piece: str) -> None:
        nonlocal thought, said
        if piece == RESET:  # what was said so far was thought
            thought, said = True, False
        else:
            if thought and not said:
                piece = piece.lstrip("\n")
            said = said or bool(piece)
        say(piece)

    def think_on(piece: str) -> None:
        nonlocal thought
        thought = True
        think(piece)

    return say_trimmed, think_on
