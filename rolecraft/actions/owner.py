"""What an action needs of the role that owns it: the only thing it knows about roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rolecraft.actions.action import Action
    from rolecraft.models.base import Session
    from rolecraft.trajectories.events import Event
    from rolecraft.trajectories.recorder import Log


class Owner(Protocol):
    """Implemented by `rolecraft.roles.Role`."""

    name: str

    def open_session(self, *, system: str | None = None) -> Session: ...

    def _log_now(self) -> Log:
        """Where the role's events go at this moment."""

    def _record(self, event: Event) -> int:
        """Write an event of this role; its cause is what happens now unless it names one."""

    def _action_starts(self, action: Action, arguments: dict[str, Any]) -> Event:
        """Count and record the start of an action; the event."""

    def _failed(self, error: Exception, action: Action | None, cause: int | None) -> None:
        """Record what an action (or the role itself, without one) raised."""
