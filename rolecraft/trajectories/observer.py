"""Observers: what is told of events when they happen, before they are committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from rolecraft.trajectories.events import Event


@dataclass(frozen=True, slots=True)
class Directive:
    """What an observer wants done: `stop` ends the run after the round.

    The record's `stop` has the `reason` as `why`.
    """

    do: Literal["stop"]
    reason: str


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
