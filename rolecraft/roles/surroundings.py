"""What a role needs of the environment it is in: the only thing it knows about environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rolecraft.messages import Message
    from rolecraft.models.base import Model
    from rolecraft.models.budget import Budget
    from rolecraft.roles.role import Role
    from rolecraft.trajectories.recorder import Recorder


class Surroundings(Protocol):
    """Implemented by `rolecraft.environments.Environment`."""

    seed: int

    budget: Budget | None

    in_round: bool
    """True while roles act; what is said from outside meanwhile waits for the round's end."""

    @property
    def has_model(self) -> bool: ...

    def model_of(self, role: Role) -> Model | None:
        """The role's own model, or the environment's; None if neither is set."""

    @property
    def recorder(self) -> Recorder:
        """Where events go outside of a round."""

    def deliver(self, message: Message) -> None:
        """Hand a message that is recorded to its receivers."""

    def check_receivers(self, message: Message) -> None:
        """Raise `UnknownName` if the message is addressed to nobody that exists."""

    def rewatch(self) -> None:
        """A role changed what it watches."""
