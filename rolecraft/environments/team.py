"""Teams: roles in an environment, with limits, that are given one idea and leave one run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.environments.environment import Environment
from rolecraft.errors import UsageError
from rolecraft.messages import ALL, Message
from rolecraft.models.budget import Budget, Limits
from rolecraft.roles.role import Role
from rolecraft.trajectories.events import StopReason, Usage
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.models.base import Model


@dataclass(frozen=True, slots=True)
class Run:
    """What happened: the trajectory, the last message, and why it ended."""

    trajectory: Trajectory
    message: Message | None
    stop: StopReason

    @property
    def usage(self) -> Usage:
        """What all model calls cost together."""
        return self.trajectory.usage

    def save(self, path: str | Path) -> Path:
        """Write the journal to a file, or under a free name into a folder; the file."""
        return self.trajectory.save(path)

    def sequence_diagram(self) -> str:
        """Who told whom what, as a Mermaid sequence diagram."""
        return self.trajectory.sequence_diagram()


class Team:
    """Roles that work on one idea.

    `model` serves every role that has none of its own; `limits` bind all roles together. The
    roles hear each other through `env`, an `Environment` of the team's own unless one is given.
    """

    def __init__(
        self,
        roles: Iterable[Role] = (),
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        env: Environment | None = None,
        **options: Any,
    ) -> None:
        if env is not None and (model is not None or limits is not None or options):
            raise UsageError(
                "`Team(env=...)` brings its own model and limits; give one or the other."
            )
        self.env = env or Environment(model=model, limits=limits, **options)
        self.idea = ""
        self.hire(roles)

    def hire(self, roles: Iterable[Role]) -> None:
        """Add roles. Raises `DuplicateRole`."""
        self.env.add_roles(roles)

    def invest(self, usd: float) -> None:
        """Limit what all model calls together may cost, in US dollars."""
        self.env.limits = replace(self.env.limits or Limits(), usd=usd)
        if self.env.budget is None:
            self.env.budget = Budget(self.env.limits)
        self.env.budget.limits = self.env.limits

    @property
    def roles(self) -> dict[str, Role]:
        return self.env.roles

    def run_project(self, idea: str, send_to: Any = ALL) -> None:
        """Put an idea in, for everyone who listens to the user or for `send_to`."""
        if not self.env.roles:
            raise UsageError("The team has no roles. Give it some: `Team([Writer(), Editor()])`.")
        if not self.idea:
            self.env.about.setdefault("task", {"prompt": idea})
        self.idea = idea
        self.env.publish_message(Message(idea, send_to=send_to))
        if self.env.is_idle:
            raise UsageError(
                f"Nobody takes up the idea {idea!r}: no role watches `UserRequirement`. Add it to "
                f"the `watch` of one, or name the receiver: `run(idea, send_to='...')`."
            )

    async def run(
        self,
        idea: str | None = None,
        n_round: int | None = None,
        *,
        rounds: int | None = None,
        send_to: Any = ALL,
    ) -> Run:
        """Work until everybody is idle, or for `rounds` (`n_round`) rounds.

        Raises `LimitReached` when the money, tokens or calls of `limits` are used up, and what
        an action raises, as it was raised. The trajectory up to there is in `team.trajectory`.
        """
        if idea is not None:
            self.run_project(idea, send_to)
        elif self.env.is_idle:
            raise UsageError("The team has nothing to do: `await team.run('an idea')`.")
        try:
            reason = await self.env.run(rounds if rounds is not None else n_round)
        except BaseException as error:
            self.env.broke_off(error)
            raise
        self.env.stop(reason)
        return Run(self.env.trajectory.copy(), self.env.last_message, reason)

    @property
    def trajectory(self) -> Trajectory:
        """Everything that happened so far."""
        return self.env.trajectory
