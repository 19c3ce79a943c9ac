"""A first look at a data set: which rows there are, before anything is run or paid."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from rolecraft.environments.row_files import Row
from rolecraft.rollouts.batch.identity import DIGEST_BYTES, Occurrences, digest

COLUMNS = 1000
"""So many columns are noted: of rows that have each its own, there is no end."""
_DIGEST = 32
_LENGTH = _DIGEST + 4


@dataclass(slots=True)
class Survey:
    """The rows of a data set by their identity: 36 bytes each, whatever their size."""

    unreadable: int = 0
    columns: dict[str, None] = field(default_factory=dict)
    """Those that rows have, in the order in which they were met; the first `COLUMNS`."""
    _rows: bytearray = field(default_factory=bytearray)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows) // _LENGTH

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """The digest and the occurrence of each row, in order."""
        for number in range(len(self)):
            yield self[number]

    def __getitem__(self, number: int) -> tuple[str, int]:
        at = number * _LENGTH
        row = self._rows[at : at + _LENGTH]
        if len(row) < _LENGTH:
            raise IndexError(number)
        return row[:_DIGEST].hex(), int.from_bytes(row[_DIGEST:], "big")

    def keys(self) -> Iterator[bytes]:
        """The key of each row: of its items but for their sample, as in `ItemId.key`."""
        rows = self._rows
        for at in range(0, len(rows), _LENGTH):
            yield bytes(rows[at : at + DIGEST_BYTES] + rows[at + _DIGEST : at + _LENGTH])

    def add(self, row: str, occurrence: int) -> None:
        self._rows += bytes.fromhex(row) + occurrence.to_bytes(_LENGTH - _DIGEST, "big")

    @property
    def fingerprint(self) -> str:
        """The same for the same rows in the same order."""
        return hashlib.sha256(self._rows).hexdigest()


def survey(rows: Iterable[Row], volatile: Collection[str]) -> Survey:
    """Look at every row once; raises what reading them raises."""
    found, occurrences = Survey(), Occurrences()
    for row in rows:
        found.unreadable += bool(row.problem)
        if len(found.columns) < COLUMNS:
            found.columns.update(dict.fromkeys(row.fields))
        said = digest(row, volatile)
        found.add(said, occurrences.next(said))
    return found
