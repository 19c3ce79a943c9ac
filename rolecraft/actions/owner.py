"""What an action needs of the role that owns it: the only thing it knows about roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rolecraft.actions.action import Action, Running
    from rolecraft.models.base import Model, Session
    from rolecraft.models.budget import Budget
    from rolecraft.trajectories.events import Event
    from rolecraft.trajectories.recorder import Log


class Owner(Protocol):
    """Implemented by `rolecraft.roles.Role`."""

    name: str

    @property
    def _budget(self) -> Budget | None:
        """What bounds the role's model calls and time."""

    def open_session(
        self, *, system: str | None = None, model: Model | str | None = None
    ) -> Session: ...

    def _log_now(self) -> Log:
        """Where the role's events go at this moment."""

    def _record(self, event: Event) -> int:
        """Write an event of this role; its cause is what happens now unless it names one."""

    def _key_of(self, path: str) -> str:
        """The idempotency key of the run of an action with this path."""

    def _action_starts(self, action: Action, arguments: dict[str, Any]) -> Running:
        """Count and record the start of an action."""

    async def _in_time(self, now: Running) -> None:
        """Raises `LimitReached` when the time that the role may take is over."""

    async def _allow(self, now: Running) -> None:
        """Ask a person. Raises `ApprovalDenied`, or `ApprovalNeeded` if nobody is there."""

    def _action_ends(self, now: Running, result: Any) -> None:
        """Record the end of an action."""

    def _action_failed(self, now: Running, error: Exception) -> None:
        """Record what an action raised."""

    def _action_cut(self, now: Running) -> None:
        """Record that an action was cancelled."""

    async def _is_served(self, now: Running) -> bool:
        """Whether the run comes from the record. Raises `OutcomeUnknown`."""

    def _serve(self, now: Running) -> Any:
        """Do from the record what the run did: its result, or what it raised."""
