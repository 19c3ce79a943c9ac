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
    """How many of these say what another one of them says as well."""
    return more_than_one(Counter(map(gist, texts)))


def more_than_one(counted: Counter[bytes]) -> int:
    """How many of these there are, but for those that are there once."""
    return sum(often for often in counted.values() if often > 1)
