"""The terms by which a text is found: words, or pairs of characters where no spaces part words.

Invariant: a term consists of letters, digits and characters beyond ASCII only, so that none means
anything to a search engine.
"""

from __future__ import annotations

import re
import unicodedata

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese syllables
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Korean, whose words grow endings
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
_RUN = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W_{_UNSPACED}]+")
_ACCENTS = re.compile("([a-z])[\u0300-\u036f]+")


def terms_of(text: str) -> list[str]:
    """What to index of a text: words in lower case, without accents; characters and pairs."""
    terms = []
    for run, unspaced in _runs(text):
        if unspaced:
            terms += [*run, *_pairs(run)]
        else:
            terms.append(run)
    return terms


def query_terms(text: str, most: int) -> list[str]:
    """What to look for, each term once: like `terms_of`, but characters only where one is alone.

    Of a query with more than `most` different terms, the first ones.
    """
    found: dict[str, None] = {}
    for run, unspaced in _runs(text):
        for term in (_pairs(run) or [run]) if unspaced else [run]:
            found[term] = None
            if len(found) == most:
                return list(found)
    return list(found)


def _runs(text: str) -> list[tuple[str, bool]]:
    text = text.encode("utf-8", "replace").decode()  # halves of characters
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _ACCENTS.sub(r"\1", unicodedata.normalize("NFD", text))
    text = unicodedata.normalize("NFC", text)
    return [(found[0], bool(found["unspaced"])) for found in _RUN.finditer(text)]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]
