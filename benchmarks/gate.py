"""A limit that a benchmark holds a figure to."""

from __future__ import annotations

from typing import NamedTuple


class Gate(NamedTuple):
    """`value` may be as large as `limit`."""

    what: str
    value: float
    limit: float

    @property
    def ok(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        mark = "ok  " if self.ok else "OVER"
        return f"{mark} {self.what}: {self.value:.3g} (limit {self.limit:.3g})"
