"""What each role spent on which model: a table from the events alone, so also of old records.

Invariant: the last row is the sum of those above it, and what it says of calls, tokens and price is
the trajectory's own `usage`. What a model was paid for in vain stands in its own row, whoever
answered in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.in_words import UNKNOWN, bill, printable, text_table

if TYPE_CHECKING:
    from rolecraft.trajectories.trajectory import Trajectory

TOTAL = "all"
"""What the last row has as its role."""
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "calls")


@dataclass(slots=True, kw_only=True)
class CostRow:
    """What one role spent on one model. `model` is empty where the record does not name it.

    `usd` is None where no price is known; `unpriced` counts the calls that it leaves out.
    """

    role: str
    model: str = ""
    calls: int = 0
    """Calls that were answered or billed; those that a prompt cache answered are not among them."""
    reused: int = 0
    """Answers from a prompt cache."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Those of the prompts that the provider had read before."""
    usd: float | None = None
    unpriced: int = 0
    saved_usd: float | None = None
    """What the answers from a prompt cache cost when they were given."""
    wasted: int = 0
    """Attempts that brought no answer: refused, too late, broken off, useless."""

    @property
    def price(self) -> str:
        """The cost in words: `≥` where some of it is unknown, a dash where all of it is."""
        return bill(self.usd, self.unpriced)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row in words, a cell for each of `CostTable.HEAD`."""
        numbers = (self.calls, self.reused, self.prompt_tokens, self.cached_tokens)
        words = (f"{number:,}" for number in (*numbers, self.completion_tokens))
        of_all = self.role == TOTAL and not self.model
        model = "" if of_all else printable(self.model) or UNKNOWN
        role = printable(self.role) or UNKNOWN
        return (role, model, *words, self.price, f"{self.wasted:,}")


@dataclass(frozen=True, slots=True)
class CostTable:
    """The rows of all roles and models, and the sum of them; `str()` is a text table."""

    HEAD = (
        *("role", "model", "calls", "reused", "tokens in", "cached", "tokens out"),
        *("cost", "wasted"),
    )

    rows: tuple[CostRow, ...]

    @property
    def total(self) -> CostRow:
        """The sum of the rows; a price that is unknown in all of them is unknown."""
        total = CostRow(role=TOTAL)
        for row in self.rows:
            for field in fields(CostRow)[2:]:
                value = getattr(row, field.name)
                if value is not None:
                    setattr(total, field.name, _sum(getattr(total, field.name) or 0, value))
        return total

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models of which a price is missing. Give them `prices=`."""
        return tuple(dict.fromkeys(row.model for row in self.rows if row.unpriced))

    def of(self, *, role: str | None = None, model: str | None = None) -> CostTable:
        """The rows of one role, of one model, or of both."""
        return CostTable(
            tuple(
                row for row in self.rows if role in (None, row.role) and model in (None, row.model)
            )
        )

    def __iter__(self) -> Iterator[CostRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """All rows in words; the last is the total, unless there is but one."""
        rows = (*self.rows, *((self.total,) if len(self) > 1 else ()))
        return [row.cells for row in rows]

    def __str__(self) -> str:
        return text_table([self.HEAD, *self.cells], left=2)


def costs(trajectory: Trajectory) -> CostTable:
    """A row for each role and model that it asked, in the order in which they were first asked."""
    rows: dict[tuple[str, str], CostRow] = {}

    def row_of(role: str, model: str) -> CostRow:
        return rows.setdefault((role, model), CostRow(role=role, model=model))

    for event in trajectory.events:
        data = event.data
        failed = event.kind == "error" and _number(data.get("attempts"))
        if event.usage is None and event.kind != "model_call" and not failed:
            continue
        row = row_of(event.role, str(data.get("model") or ""))
        # What others were paid for in vain is part of the event's usage; this is the rest.
        own = data.get("own_usage")
        for passed in _rows(data.get("passed_over")):
            other = row_of(event.role, str(passed.get("model") or ""))
            other.wasted += _number(passed.get("attempts")) or 1
            if own is not None and "usage" in passed:
                _add(other, _spent(passed["usage"]))
        _add(row, _spent(event.usage if own is None else own))
        attempts = _number(data.get("attempts"))
        row.wasted += attempts if failed else max(attempts - 1, 0)
        kept = data.get("kept")
        if isinstance(kept, Mapping):
            row.reused += 1
            usd = kept.get("usd")
            if isinstance(usd, (int, float)):
                row.saved_usd = _sum(row.saved_usd or 0.0, usd)
    return CostTable(tuple(rows.values()))


def _spent(usage: Any) -> dict[str, Any]:
    """Counts and price of a `Usage`, or of its members in a record; nothing for what is neither."""
    if isinstance(usage, Mapping):
        usd = usage.get("usd")
        counts: dict[str, Any] = {name: _number(usage.get(name)) for name in _COUNTS}
        return {**counts, "usd": float(usd) if isinstance(usd, (int, float)) else None}
    if not isinstance(usage, Usage):
        return {**dict.fromkeys(_COUNTS, 0), "usd": 0.0}
    return {name: getattr(usage, name) for name in (*_COUNTS, "usd")}


def _add(row: CostRow, spent: Mapping[str, Any]) -> None:
    for name in _COUNTS:
        setattr(row, name, getattr(row, name) + spent[name])
    something = any(spent[name] for name in _COUNTS)
    if spent["usd"] is None:
        row.unpriced += spent["calls"] or something
    elif something or spent["usd"]:
        row.usd = _sum(row.usd or 0.0, spent["usd"])


def _sum(one: float, other: float) -> float:
    """The sum without the noise of binary fractions: 0.00019, not 0.00018999999999999998."""
    total = one + other
    return round(total, 15) if isinstance(total, float) else total


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
