"""Which row is which: by what it says, never by where it stands.

Invariant: an item keeps its identity when rows are added, removed or put into another order, and
gets another one when anything in its row changes but volatile fields. Rows that say the same are
told apart by the number of their occurrence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from rolecraft.environments.row_files import Row
from rolecraft.models.hashing import hash64

VOLATILE = ("index", "__index_level_0__", "timestamp")
"""Fields that say where a row stands or when it was written."""
DIGEST_BYTES = 16
"""Of SHA-256's 32, in memory: two of 10^9 rows are alike with a probability of 10^-21."""


SAMPLE_BYTES = 4


def key_of(row: str, occurrence: int, sample: int) -> bytes:
    """What `ItemId.key` gives, without one."""
    digest = bytes.fromhex(row[: 2 * DIGEST_BYTES])
    if not occurrence and not sample:  # most of them
        return digest + _FIRST
    return digest + occurrence.to_bytes(4, "big") + sample.to_bytes(SAMPLE_BYTES, "big")


_FIRST = bytes(4 + SAMPLE_BYTES)


class ItemId(NamedTuple):
    """One sample of one row."""

    row: str
    """SHA-256 of the canonical row, in hexadecimal."""
    occurrence: int = 0
    """How many rows before it say the same."""
    sample: int = 0

    @property
    def name(self) -> str:
        """Short enough for a file's name; the same for the same item."""
        return f"{self.row[:16]}-{self.occurrence}-{self.sample}"

    @property
    def key(self) -> bytes:
        """For tables of many."""
        return key_of(self.row, self.occurrence, self.sample)

    def seed(self, seed: int) -> int:
        """Of this sample, 63 bits: another one for each row, occurrence and sample."""
        return hash64(seed, int(self.row[:16], 16), self.occurrence, self.sample) >> 1


def canonical(fields: Mapping[str, Any], volatile: Collection[str] = VOLATILE) -> bytes:
    """The row as JSON with sorted keys and without volatile fields, in UTF-8."""
    if not fields.keys().isdisjoint(volatile):
        fields = {name: value for name, value in fields.items() if name not in volatile}
    try:
        text = _encode(fields)
    except TypeError:  # keys of several types, which cannot be sorted
        text = _encode(_text_keys(fields))
    return text.encode("utf-8", "surrogatepass")


def digest(row: Row, volatile: Collection[str] = VOLATILE) -> str:
    """SHA-256 of the canonical row in hexadecimal; of its bytes where it cannot be read."""
    return row.raw or hashlib.sha256(canonical(row.fields, volatile)).hexdigest()


class Occurrences:
    """Numbers the rows that say the same, in the order of the data set."""

    def __init__(self) -> None:
        self._again: dict[bytes, int] = {}
        """Rows that came a second time, and how often."""
        self._seen: set[bytes] = set()

    def next(self, row: str) -> int:
        """The number of this occurrence of a row, from 0. `row` is its digest."""
        short = bytes.fromhex(row[: 2 * DIGEST_BYTES])
        if short not in self._seen:
            self._seen.add(short)
            return 0
        number = self._again[short] = self._again.get(short, 0) + 1
        return number


def _plain(value: Any) -> Any:
    """What Parquet files hold and JSON does not: bytes, times, decimals, arrays."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return hashlib.sha256(value).hexdigest()
    if hasattr(value, "tolist"):
        return value.tolist()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_encode = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain
).encode


def _text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _text_keys(each) for key, each in value.items()}
    return [_text_keys(each) for each in value] if isinstance(value, (list, tuple)) else value
