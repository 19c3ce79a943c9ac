"""Who asked how often, at what price, and how long it took: a table with a row for each role.

Invariant: the last row is the sum of those above it, and what it says of calls, tokens and price
is the trajectory's own `usage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from rolecraft.messages import USER
from rolecraft.trajectories._header import declared_actions
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.in_words import UNKNOWN, bill, duration, printable, text_table
from rolecraft.trajectories.nesting import outermost
from rolecraft.trajectories.timings import Timing

if TYPE_CHECKING:
    from rolecraft.trajectories.trajectory import Trajectory

ASKED_AGAIN = "That answer is not valid"
"""How a prompt begins that asks a typed question again."""
TOTAL = "all"
"""What the last row has as its role."""


@dataclass(slots=True, kw_only=True)
class RoleRow:
    """What one role did and what it cost.

    `usd` is None where no price is known; `unpriced` counts the calls that it leaves out.
    `retries` are attempts after the first for the same answer, `asked_again` typed questions whose
    answer was not valid. `seconds` is wall time, spent in actions, tools and model calls;
    `model_seconds` the part of it spent waiting for models. Both are None where no time was taken.
    """

    role: str
    messages: int = 0
    actions: int = 0
    tool_calls: int = 0
    failed: int = 0
    """Actions and tool calls that ended in an error, and errors outside of any."""
    calls: int = 0
    """Model calls."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = None
    unpriced: int = 0
    retries: int = 0
    asked_again: int = 0
    seconds: float | None = None
    model_seconds: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row in words, a cell for each of `RoleTable.HEAD`."""
        return (
            printable(self.role) or UNKNOWN,
            f"{self.actions + self.tool_calls:,}",
            f"{self.calls:,}",
            f"{self.prompt_tokens:,}",
            f"{self.completion_tokens:,}",
            self.price,
            f"{self.retries:,}",
            f"{self.asked_again:,}",
            duration(self.seconds),
        )

    @property
    def price(self) -> str:
        """The cost in words: `≥` where some of it is unknown, a dash where all of it is."""
        return bill(self.usd, self.unpriced)


@dataclass(frozen=True, slots=True)
class RoleTable:
    """The rows of all roles, and the sum of them; `str()` is a text table.

    A log of another tool may record no model calls, or no actions: then none is not zero but
    unknown, and a dash in words.
    """

    HEAD = (
        *("role", "actions", "model calls", "tokens in", "tokens out", "cost"),
        *("retries", "asked again", "time"),
    )
    OF_CALLS = ("model calls", "tokens in", "tokens out", "cost", "retries", "asked again")
    """The columns that are about model calls."""

    rows: tuple[RoleRow, ...]
    unrecorded: frozenset[str] = frozenset()
    """Columns of `HEAD` of which the trajectory's format says nothing."""

    def words(self, row: RoleRow) -> tuple[str, ...]:
        """A row in words, a cell for each of `HEAD`."""
        return tuple(
            UNKNOWN if head in self.unrecorded and cell in ("0", "$0") else cell
            for head, cell in zip(self.HEAD, row.cells, strict=True)
        )

    @property
    def total(self) -> RoleRow:
        """The sum of the rows; what is unknown in all of them is unknown."""
        total = RoleRow(role=TOTAL)
        for row in self.rows:
            for field in fields(RoleRow)[1:]:
                _add(total, field.name, getattr(row, field.name))
        return total

    def __iter__(self) -> Iterator[RoleRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, role: str) -> RoleRow:
        """The row of a role by its name. Raises `KeyError`."""
        return {row.role: row for row in self.rows}[role]

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """All rows in words; the last is the total, unless there is but one."""
        rows = (*self.rows, *((self.total,) if len(self) > 1 else ()))
        return [self.words(row) for row in rows]

    def __str__(self) -> str:
        return text_table([self.HEAD, *self.cells])


def role_table(trajectory: Trajectory, *, timings: Mapping[int, Timing] | None = None) -> RoleTable:
    """A row for each role that was declared or did something; the user has none.

    `timings` are wall times by `seq`, from a `Stopwatch` or `load_timings`; without them those of
    the trajectory, if it has any.
    """
    timings = trajectory.timings if timings is None else timings
    within = outermost(trajectory)
    rows = {name: RoleRow(role=name) for name in declared_actions(trajectory.about)}
    for event in trajectory.events:
        if event.role in ("", USER) and event.usage is None:
            continue
        row = rows.setdefault(event.role, RoleRow(role=event.role))
        _count(row, event)
        if timing := timings.get(event.seq):
            _time(row, event, timing, inside=within[event.seq] is not None)
    return RoleTable(tuple(rows.values()), _unrecorded(trajectory))


def _unrecorded(trajectory: Trajectory) -> frozenset[str]:
    """The columns that a log of another tool cannot fill: an importer lists what its format has."""
    recorded = trajectory.about.get("records")
    if not isinstance(recorded, list):
        return frozenset()
    calls = "model_call" in recorded or any(event.usage for event in trajectory.events)
    acts = "action" in recorded or "tool_call" in recorded
    return frozenset((() if calls else RoleTable.OF_CALLS) + (() if acts else ("actions",)))


def _count(row: RoleRow, event: Event) -> None:
    data = event.data
    match event.kind:
        case "message":
            row.messages += 1
        case "action":
            row.actions += 1
        case "tool_call":
            row.tool_calls += 1
        case "tool_result" if data.get("ok", True) is False:
            row.failed += 1
        case "error":
            row.failed += 1
            row.retries += _retries(data)
        case "model_call":
            row.retries += _retries(data)
            row.asked_again += _is_asked_again(data.get("messages"))
    usage = event.usage
    if usage is not None:
        row.calls += usage.calls
        row.prompt_tokens += usage.prompt_tokens
        row.completion_tokens += usage.completion_tokens
        if usage.usd is None:
            row.unpriced += usage.calls
        else:
            row.usd = (row.usd or 0.0) + usage.usd


def _time(row: RoleRow, event: Event, timing: Timing, *, inside: bool) -> None:
    if timing.took is None:
        return
    if event.kind == "model_call":
        row.model_seconds = (row.model_seconds or 0.0) + timing.took
    if not inside:  # what happens within an action is in the action's own time
        row.seconds = (row.seconds or 0.0) + timing.took


def _retries(data: Mapping[str, Any]) -> int:
    attempts = data.get("attempts")
    return max(attempts - 1, 0) if isinstance(attempts, int) else 0


def _is_asked_again(messages: Any) -> bool:
    last = messages[-1] if isinstance(messages, list) and messages else None
    text = last.get("content") if isinstance(last, Mapping) else None
    return isinstance(text, str) and text.startswith(ASKED_AGAIN)


def _add(total: RoleRow, name: str, value: Any) -> None:
    if value is not None:
        setattr(total, name, (getattr(total, name) or 0) + value)
