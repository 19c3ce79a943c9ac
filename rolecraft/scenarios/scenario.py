"""Scenarios: who plays what, where, for which reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.environments.task import Task, TaskEnvironment, TaskSource
from rolecraft.errors import UnknownName
from rolecraft.rewards.reward import Reward, RewardBreakdown
from rolecraft.roles.role import Role
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.models.phases import Phases


@dataclass(frozen=True, slots=True)
class Episode:
    """One task, played and scored."""

    task: Task
    trajectory: Trajectory
    reward: RewardBreakdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that is needed to play tasks and score them.

    `team` makes fresh roles for each episode, `environment` makes the place from a task and those
    roles, `tasks` supplies tasks, `reward` scores what the environment measured. `untrained`
    makes a policy to start training from, for scenarios small enough to be learnt from nothing.
    `models` are whom the roles ask where nobody names another model.
    """

    name: str
    team: Callable[[], Sequence[Role]]
    environment: Callable[..., TaskEnvironment]
    tasks: TaskSource
    reward: Reward
    untrained: Callable[[int], Model] | None = None
    """From a seed to a model with random weights."""
    models: Phases | None = None
    """A model behind an API and a local one; its `phase` says which of them plays."""

    async def play(
        self,
        task: Task,
        *,
        model: Model | str | None = None,
        role_models: Mapping[str, Model | str] | None = None,
        **options: Any,
    ) -> Episode:
        """Play one task: `model` serves every role, `role_models` overrides it by role name.

        `options` go to the environment (`journal`, `limits`, `seed`, …). Raises what the
        environment raises.
        """
        environment = self._environment(task, model, role_models, options)
        trajectory = await environment.episode()
        return Episode(task, trajectory, self.reward(trajectory))

    async def recover(
        self,
        task: Task,
        journal: str | Path,
        *,
        model: Model | str | None = None,
        role_models: Mapping[str, Model | str] | None = None,
        **options: Any,
    ) -> Episode:
        """Go on with an episode that was cut off or failed; what is in its journal is not redone.

        The arguments are those of `play`. Raises what `TaskEnvironment.recover` raises.
        """
        environment = self._environment(task, model, role_models, options)
        trajectory = await environment.recover(journal)
        return Episode(task, trajectory, self.reward(trajectory))

    def _environment(
        self,
        task: Task,
        model: Model | str | None,
        role_models: Mapping[str, Model | str] | None,
        options: dict[str, Any],
    ) -> TaskEnvironment:
        roles = self.team()
        if role_models:
            by_name = {role.name: role for role in roles}
            for name, its_model in role_models.items():
                if name not in by_name:
                    raise UnknownName(f"Role of scenario `{self.name}`", name, by_name)
                by_name[name].model = its_model
        model = self.models if model is None else model
        return self.environment(task, roles, model=model, **options)
