"""From tokens to text while they are still being sampled.

Invariant: what has been said is a prefix of the answer's text as it will be, so nothing has to be
taken back. A character that is not complete yet, and an end that could be the beginning of a stop
string, are held back until more is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from rolecraft.models.base import RESET

_INCOMPLETE = "\ufffd"
"""What a tokenizer's decoder writes for bytes that are no character yet."""


class Pieces:
    """Hears the tokens sampled so far, and says what they add to the text.

    `decode` is the tokenizer's. Only the last tokens are decoded again: those since `_said`, and
    the ones before them that decoders need to see for the space between.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        say: Callable[[str], None],
        *,
        stop: Sequence[str] = (),
    ) -> None:
        self._decode, self._say, self._stop = decode, say, tuple(stop)
        self._before = 0
        """Tokens up to here are said and no longer looked at."""
        self._said = 0
        """Tokens up to here are in `_text`."""
        self._held = ""
        """Text that could be the beginning of a stop string."""
        self._over = False

    def __call__(self, sampled: Sequence[int]) -> None:
        if self._over:
            return
        known = self._decode(sampled[self._before : self._said])
        text = self._decode(sampled[self._before :])
        if text.endswith(_INCOMPLETE) or not text.startswith(known):
            return
        if len(text) > len(known):  # else there is nothing to see between it and what follows
            self._before = self._said
        self._said = len(sampled)
        self._hear(text[len(known) :])

    def _hear(self, text: str) -> None:
        text = self._held + text
        cuts = [at for at in (text.find(stop) for stop in self._stop) if at >= 0]
        if cuts:
            text, self._held, self._over = text[: min(cuts)], "", True
        else:
            keep = max((_overlap(text, stop) for stop in self._stop), default=0)
            text, self._held = text[: len(text) - keep], text[len(text) - keep :]
        if text:
            self._say(text)


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` with which `stop` begins."""
    return next((n for n in range(len(stop) - 1, 0, -1) if text.endswith(stop[:n])), 0)


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
