"""Which texts say the same: in whatever words, with the same code and the same values."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from rolecraft.synthesis.texts.leak_check import coded


def gist(text: str) -> bytes:
    """A digest of the code and the values in a text; where it has none, of its words."""
    said = "\0".join(piece.strip() for piece in coded(text)) or " ".join(text.split())
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def alike(texts: Iterable[str]) -> int:
    """How many of these say what one before them says: so many fewer different ones there are."""
    return repeated(Counter(map(gist, texts)))


def repeated(counted: Counter[bytes]) -> int:
    """How many of these were there before."""
    return counted.total() - len(counted)
