"""Where a stop string ends an answer.

Invariant: stop strings are looked for in one text, whoever looks: while tokens are sampled, while
they are heard, and when the answer is read. It is the text of all sampled tokens, special ones
spelled out, without those that end answers; vLLM looks in the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Before(NamedTuple):
    """What of an answer stands before a stop string."""

    whole: int
    """So many whole tokens."""
    rest: str = ""
    """The beginning of the next one, as far as it stands before the stop string."""
    stopped: bool = False
    """Whether there is a stop string."""


class Stops:
    """Looks for any of `stop`, one at least, in the text that `decode` makes of tokens."""

    def __init__(self, stop: Sequence[str], decode: Callable[[Sequence[int]], str]) -> None:
        self._stop, self._decode = tuple(stop), decode
        # A character takes at most four tokens (one per byte), so this window holds a whole stop
        # string whose last token has just come.
        self._window = 4 * max(map(len, self._stop)) + 4

    def found(self, sampled: Sequence[int]) -> bool:
        """Whether a stop string is complete. To be asked after each token."""
        text = self._decode(sampled[-self._window :])
        return any(stop in text for stop in self._stop)

    def before(self, sampled: Sequence[int], known: int = 0) -> Before:
        """What stands before the first stop string.

        Where there is none: the tokens in which none can begin any more. The first `known` tokens
        hold no whole one.
        """
        first = max(0, known - self._window)
        ids = sampled[first:]
        text = self._decode(ids)
        cuts = [at for at in (text.find(stop) for stop in self._stop) if at >= 0]
        if not cuts:
            kept = max(_overlap(text, stop) for stop in self._stop)
            return Before(first + (self._tokens(ids, text, len(text) - kept) if kept else len(ids)))
        cut = min(cuts)
        count = self._tokens(ids, text, cut)
        return Before(first + count, text[len(self._decode(ids[:count])) : cut], stopped=True)

    def _tokens(self, ids: Sequence[int], text: str, end: int) -> int:
        """How many whole tokens the first `end` characters of `text` have."""
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high + 1) // 2
            if len(self._decode(ids[:middle])) <= end:
                low = middle
            else:
                high = middle - 1
        while low and not text.startswith(self._decode(ids[:low])):  # within a character
            low -= 1
        return low


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` with which `stop` begins."""
    return next((n for n in range(len(stop) - 1, 0, -1) if text.endswith(stop[:n])), 0)
