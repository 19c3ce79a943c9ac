"""Whether two answers are the same without asking anybody: equal words, or exactly equal numbers.

What is found the same here is the same: case, width, articles, quotation marks and a full stop do
not matter, everything else does. An answer that only contains the right one, among others say, is
not the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import normalize

from rolecraft.environments.web_research.words import folded
from rolecraft.roles.ready.answers import exact_value

_ARTICLES = frozenset({"an", "the"})
"""Wherever they stand but at the end; `a` only at the beginning: of vitamin A it is the name."""
_AROUND = "\"'“”‘’«»„()[]{}"  # noqa: RUF001
_AFTER = ".,;:!?"
_MARKUP = ("***", "**", "__", "*", "_", "`")
_NUMERIC = re.compile(r"(?:[+\-−]\s*)?\d(?:[\d.,/+\-−\u2009\u202f\xa0]*\d)?")  # noqa: RUF001
_SUPERSCRIPT = re.compile(r"(?<=\d)[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")
_QUOTES = re.compile("[\"'“”‘’′″]")  # noqa: RUF001
_MEASURE = re.compile(r"(?<=\d)\s*([\"'“”‘’′″])(?!\w)")  # noqa: RUF001


def matches(answer: str, accepted: Iterable[str]) -> str | None:
    """Which of the `accepted` answers this one is; None if none, as far as can be told here."""
    for each in accepted:
        if same(answer, each):
            return each
    return None


def same(answer: str, expected: str) -> bool:
    """Whether the answers are surely the same: equal once normalised, or numbers of one value.

    Numbers must stand among the same words, so that 5 km is not 5 m, nor 5 million.
    """
    answer, expected = _signs_kept(answer), _signs_kept(expected)
    plain = normalised(answer)
    if plain and plain == normalised(expected):
        return True
    value = exact_value(folded(answer))
    return (
        value is not None
        and value == exact_value(folded(expected))
        and _beside_number(answer) == _beside_number(expected)
    )


def normalised(answer: str) -> str:
    """An answer as it is compared with another."""
    text = folded(_without_markup(answer.strip()))
    words = [_trimmed(word) for word in text.split()]
    words = [word for word in words if word]
    kept = [
        word
        for at, word in enumerate(words)
        if at == len(words) - 1 or not (word in _ARTICLES or (at == 0 and word == "a"))
    ]
    return " ".join(kept)


def _signs_kept(answer: str) -> str:
    """With powers and feet or inches in signs that nothing below takes for ordinary characters."""
    text = _SUPERSCRIPT.sub(lambda found: "^" + normalize("NFKC", found[0]), answer)
    if len(_QUOTES.findall(text)) == 1:  # a second one would be the other end of a quotation
        text = _MEASURE.sub(lambda found: " feet" if found[1] in "'‘’′" else " inches", text)  # noqa: RUF001
    return text


def _without_markup(text: str) -> str:
    """Without emphasis around all of it: `**Ada**`. `A*` and `C__` keep what they have."""
    for mark in _MARKUP:
        inside = text[len(mark) : -len(mark)]
        if text.startswith(mark) and text.endswith(mark) and inside and mark not in inside:
            return inside.strip()
    return text


def _trimmed(word: str) -> str:
    before = None
    while word != before:
        before = word
        word = word.rstrip(_AFTER).strip(_AROUND)
    return word


def _beside_number(answer: str) -> list[str]:
    """The words of an answer that holds one number, without the number."""
    return normalised(_NUMERIC.sub(" ", folded(answer))).split()
