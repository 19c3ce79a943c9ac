"""Scenarios: who plays what, where, for which reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.actions._threads import in_thread
from rolecraft.environments.task import Task, TaskEnvironment, TaskSource
from rolecraft.errors import UnknownName
from rolecraft.rewards.breakdown import RewardBreakdown
from rolecraft.rewards.measured import measures_of
from rolecraft.rewards.opinions import Ranking, rank
from rolecraft.rewards.reward import Reward
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
    alone: Scenario | None = None
    """One agent on the same tasks for the same reward: what the team has to beat."""

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
        environment = self.make(task, model=model, role_models=role_models, **options)
        return await self.scored(task, await environment.episode())

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
        environment = self.make(task, model=model, role_models=role_models, **options)
        return await self.scored(task, await environment.recover(journal))

    async def scored(self, task: Task, trajectory: Trajectory) -> Episode:
        """The episode with its reward, made in a thread: a slow one holds up nobody else's.

        Raises what the reward raises.
        """
        reward: RewardBreakdown = await in_thread(self.reward, signals=trajectory)
        return Episode(task, trajectory, reward)

    async def ranked(self, episodes: Sequence[Episode]) -> list[Episode]:
        """A group of episodes of one task, after the judges of the reward have compared them.

        As they are where the reward has no `Ranking`. Raises what a judge's model raises.
        """
        if not any(isinstance(each, Ranking) for each in self.reward.tree()):
            return [*episodes]
        await rank(self.reward, [each.trajectory for each in episodes])
        return [await self.scored(each.task, each.trajectory) for each in episodes]

    def make(
        self,
        task: Task,
        *,
        model: Model | str | None = None,
        role_models: Mapping[str, Model | str] | None = None,
        **options: Any,
    ) -> TaskEnvironment:
        """The environment of one episode, with fresh roles; the arguments are those of `play`.

        Raises `UnknownName` for a role that the team has not.
        """
        roles = self.team()
        if role_models:
            by_name = {role.name: role for role in roles}
            for name, its_model in role_models.items():
                if name not in by_name:
                    raise UnknownName(f"Role of scenario `{self.name}`", name, by_name)
                by_name[name].model = its_model
        model = self.models if model is None else model
        made = self.environment(task, roles, model=model, **options)
        made.measures = (*made.measures, *measures_of(self.reward))
        return made
