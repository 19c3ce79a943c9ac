"""What a role needs of the environment it is in: the only thing it knows about environments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from rolecraft.errors import ApprovalNeeded, OutcomeUnknown
    from rolecraft.messages import Message
    from rolecraft.models.base import Model
    from rolecraft.models.budget import Budget
    from rolecraft.roles.role import Role
    from rolecraft.trajectories.past import PastRun
    from rolecraft.trajectories.recorder import Recorder


OnUnknown: TypeAlias = "Literal['raise', 'redo', 'skip'] | Callable[[OutcomeUnknown], Any]"
"""What to do about an action that must not be done twice and was cut off by the process's end.

`raise` the error, `redo` it under its key, `skip` it (its result is None), or a function, sync or
async, that finds out and returns the result.
"""


class Surroundings(Protocol):
    """Implemented by `rolecraft.environments.Environment`."""

    seed: int

    model: Model | str | None

    budget: Budget | None

    id: str

    past: PastRun | None
    """The record that the run follows, if it does."""

    approved: dict[str, bool]
    """Decisions on actions that want permission, by idempotency key."""

    approver: Callable[[ApprovalNeeded], bool | Awaitable[bool]] | None

    on_unknown: OnUnknown

    @property
    def in_round(self) -> bool:
        """True while roles act; what is said from outside meanwhile waits until they have acted."""

    @property
    def has_model(self) -> bool: ...

    def model_of(self, role: Role, asked: Model | str | None = None) -> Model | None:
        """`asked`, the role's own model, or the environment's; None if none is set."""

    on_delta: Callable[[str, str, str], None] | None
    """Hears pieces of answers: role, conversation, text."""

    def say_otherwise(self, message: Message) -> None:
        """Give a message the content that it has in a fork."""

    @property
    def recorder(self) -> Recorder:
        """Where events go outside of a round."""

    def deliver(self, message: Message) -> None:
        """Hand a message that is recorded to its receivers."""

    def check_receivers(self, message: Message) -> None:
        """Raise `UnknownName` if the message is addressed to nobody that exists."""

    def rewatch(self) -> None:
        """A role changed what it watches."""
