"""From tokens to text while they are still being sampled.

Invariant: what has been said is a prefix of the answer's text as it will be, so nothing has to be
taken back. A character that is not complete yet, and an end that could be the beginning of a stop
string, are held back until more is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
