"""Words of a text, as claims and pages are compared by them."""

from __future__ import annotations

import re
import unicodedata

STOP_WORDS = frozenset(
    """
    a about after all also an and any are as at be because been before being between both but
    by can could did do does during each for from had has have he her here his how i if in
    into is it its just may more most of on once only or other our out over own same she
    should so some such than that the their them then there these they this those through to
    too under until up very was we were what when where which while who whom whose why will
    with would you your
    """.split()  # noqa: SIM905 - as a list it is a page
)
"""Those that say little about what a text is about."""
NEGATIONS = frozenset(
    ["no", "not", "never", "none", "neither", "nor", "cannot", "without", "nobody", "nothing"]
)
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*|\d+|\w")  # noqa: RUF001
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def words_of(text: str) -> list[str]:
    """The words of a text in order: lower case, numbers without thousands commas."""
    return [_plain(word) for word in _WORD.findall(folded(text))]


def telling(words: list[str]) -> set[str]:
    """Without those that say little."""
    return {word for word in words if word not in STOP_WORDS and word not in NEGATIONS}


def folded(text: str) -> str:
    """One spelling for what looks the same: case, width, ligatures."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def is_negated(words: list[str]) -> bool:
    """Whether it says that something is not so."""
    return any(word in NEGATIONS or word.endswith(("n't", "n’t")) for word in words)  # noqa: RUF001


def _plain(word: str) -> str:
    return word.replace(",", "") if _THOUSANDS.fullmatch(word) else word
