"""Whether pages carry a claim, and where: the passages that are most like it.

A measure of words, which needs no model. A claim is carried by one or two sentences of a page that,
with the page's title, have all of its numbers and names and nearly all of its other telling words,
and that deny as much as it does. That is strict enough not to take a page about the same thing for
evidence, and blind to other words for the same; a judge sees further, and must then quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rolecraft.environments.web_research.words import is_negated, telling, words_of

SHARE = 0.8
"""Of the telling words of a claim, so many must be in the passage."""
MOST_SENTENCES = 20_000
"""Of one page."""
LONGEST_SENTENCE = 600
"""In characters; a longer one is cut into such pieces."""
_WRAPPED = re.compile(r"(?<=[^\n]{60})(?<![.!?:;])\n(?=\S)")
"""The end of a line that is one only because the line was full."""
_ENDS = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_NUMBER = re.compile(r"\d")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[^\W\d_a-z]\w+")


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive sentences of a page, and how much of a claim is in them, from 0 to 1."""

    url: str
    title: str
    text: str
    share: float
    carries: bool
    """As far as words tell."""
    literal: bool = False
    """It carries the claim, and has its words one after the other."""


class Pages:
    """The pages that were read, cut into passages once, for any number of claims."""

    def __init__(self, pages: Iterable[tuple[str, str, str]]) -> None:
        """`pages` are addresses, titles and texts."""
        self._passages: list[tuple[str, str, str, frozenset[str], bool]] = []
        for url, title, text in pages:
            about = words_of(title)  # sentences say "it" of what the title names
            sentences = list(_sentences(text))
            for at, sentence in enumerate(sentences):
                pair = f"{sentence} {sentences[at + 1]}" if at + 1 < len(sentences) else ""
                for passage in (sentence, pair):
                    words = words_of(passage)
                    if words:
                        there, negated = frozenset([*words, *about]), is_negated(words)
                        self._passages.append((url, title, passage, there, negated))

    def best(
        self, claim: str, *, urls: Sequence[str] | None = None, most: int = 3
    ) -> list[Passage]:
        """The passages that have most of the claim, those first that carry it; shorter ones first.

        With `urls`, of these pages only.
        """
        words = words_of(claim)
        wanted, denies = telling(words) or set(words), is_negated(words)
        must = {word for word in wanted if _NUMBER.search(word)}
        must |= {word for name in _NAME.findall(claim) for word in words_of(name)} & wanted
        said = f" {' '.join(words)} "
        found: list[tuple[bool, float, int, int]] = []
        for at, (url, _, passage, there, negated) in enumerate(self._passages):
            if urls is not None and url not in urls:
                continue
            share = len(wanted & there) / len(wanted) if wanted else 0.0
            if share > 0:
                carries = share >= SHARE and must <= there and negated == denies
                found.append((carries, share, -len(passage), -at))
        best: list[Passage] = []
        for carries, share, _, at in sorted(found, reverse=True):
            url, title, passage = self._passages[-at][:3]
            if not any(passage in other.text or other.text in passage for other in best):
                literal = carries and said in f" {' '.join(words_of(passage))} "
                best.append(Passage(url, title, passage, share, carries, literal))
                if len(best) == most:
                    break
        return best


def _sentences(text: str) -> Iterable[str]:
    count = 0
    for sentence in _ENDS.split(_WRAPPED.sub(" ", text)):
        for start in range(0, len(sentence), LONGEST_SENTENCE):
            piece = sentence[start : start + LONGEST_SENTENCE].strip()
            if piece:
                yield piece
                count += 1
                if count == MOST_SENTENCES:
                    return
