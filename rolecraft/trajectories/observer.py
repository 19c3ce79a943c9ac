"""Observers: what is told of events when they happen, before they are committed.

An observer can want something done: noted in the record, said to a role, or the run ended. It is
done once the round in which it was wanted is over, and it is in the record: a run that is gone on
with, replayed or forked takes it from there and does not ask again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from rolecraft.errors import UsageError
from rolecraft.trajectories.events import Event

Wanted = Literal[
    "note",  # a `note` event says it, and nothing else changes
    "nudge",  # a message of the environment says it to a role, which hears it in the next round
    "stop",  # the run ends after the round; the `stop` event has the reason as `why`
]


@dataclass(frozen=True, slots=True)
class Directive:
    """What an observer wants done, and why.

    `reason` is what a nudge says. `role` is the role that it is about, and that a nudge is for.
    `data` goes into the `note` event, or into the metadata of the nudge; a stop that has data is
    noted as well.
    """

    do: Wanted
    reason: str
    role: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.do not in get_args(Wanted):
            raise UsageError(f"`do` is {self.do!r}, expected one of {list(get_args(Wanted))}.")
        if self.do == "nudge" and not self.role:
            raise UsageError("A nudge is said to somebody: `Directive('nudge', ..., role='...')`.")


class Observer(Protocol):
    """Told of each event once, in the order in which they happen.

    The event has no number yet when its role acts beside others (`seq` is negative); the same
    object gets it at the commit. An observer must not change it.
    """

    def on_event(self, event: Event) -> Directive | None: ...


@runtime_checkable
class Remembers(Protocol):
    """An observer with a memory: of a run that is gone on with, it is told what was before."""

    def on_known_event(self, event: Event) -> None: ...


@runtime_checkable
class Reviews(Protocol):
    """An observer that looks at whole rounds, in the order of the record.

    It is asked when a round is over and its events have their numbers; in the `free` schedule,
    after each turn. `about` is the record's header. While a run follows a record, it is asked as
    well, and what it wants then is in the record already.
    """

    def on_round(self, about: Mapping[str, Any]) -> Sequence[Directive]: ...
