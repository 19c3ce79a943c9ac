"""What a batch run tells while it goes on: events for programs, from which bars are drawn too."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

What = Literal[
    "begins",  # the run goes on: `total` items, of which `done` are over
    "item",  # an item is over, with its `status`
    "attempt",  # an attempt at an item cost something and came to nothing
    "budget",  # the money or tokens of the run are used up: `error` says which
    "written",  # the training output is written: `samples` of them
    "ends",  # the call is over
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEvent:
    """One thing that happened. `done`, `total`, `calls`, `tokens` and `usd` are those of the run,
    earlier calls included."""

    what: What
    item: str = ""
    """Name of the item: the beginning of its row's hash, occurrence and sample."""
    number: int | None = None
    """Where its row stands among the rows, from 0. (An `error` names the line, from 1.)"""
    status: str = ""
    ended: str = ""
    error: str = ""
    samples: int | None = None
    done: int = 0
    total: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    unpriced: int | None = None
    """Calls that `usd` leaves out, because their price is unknown: it is at least so much."""

    def to_dict(self) -> dict[str, Any]:
        """For a JSON line: what is not set is left out."""
        whole = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in whole.items() if value not in (None, "")}
