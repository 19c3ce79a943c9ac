"""What has no event because it has only begun: turns of roles, and calls of models.

Events say what happened. Who measures how long it took, or shows what is under way, wants to know
when it began; an observer that has these methods too is told. Nobody is told of what a run does
again while it follows a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable


@runtime_checkable
class Beginnings(Protocol):
    """An observer that is told of beginnings; see `Telemetry`."""

    def turn_begins(self, role: str) -> None: ...

    def turn_ends(self, role: str, error: BaseException | None) -> None: ...

    def call_begins(self, role: str, session: str, model: str, cause: int | None) -> None:
        """`cause` is the event that led to the call, by its number or, before that, its handle."""


def among(observers: Iterable[object]) -> Iterator[Beginnings]:
    return (observer for observer in observers if isinstance(observer, Beginnings))
