"""What an action needs of the role that owns it: the only thing it knows about roles."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rolecraft.actions.action import Action


class Owner(Protocol):
    """Implemented by `rolecraft.roles.Role`."""

    name: str

    @property
    def ask(self) -> Callable[..., Coroutine[Any, Any, Any]]: ...

    def _action_starts(self, action: Action, arguments: dict[str, Any]) -> int:
        """Count and record the start of an action; the handle of the event."""
        ...

    def _action_failed(self, action: Action, error: Exception, event: int) -> None:
        """Record that an action raised."""
        ...
