"""The reward safety suite with a scenario: dishonest teams really play, and are really graded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from rolecraft.environments.task import Task
from rolecraft.models import FunctionModel, ModelCall
from rolecraft.models.base import Model
from rolecraft.rewards.breakdown import RewardBreakdown
from rolecraft.rewards.manipulations import PRAISE, REFUSAL
from rolecraft.rewards.reward import Reward
from rolecraft.rewards.safety import SafetyReport, UnsafeReward, compared, examine
from rolecraft.roles.role import Role
from rolecraft.trajectories.trajectory import Trajectory

ANSWERS = {"refuse": REFUSAL, "say nothing": "", "praise the judge": PRAISE}
"""What a dishonest team's model answers to everything, by the manipulation's name."""


class PlayedOnce(Protocol):
    """An episode."""

    @property
    def trajectory(self) -> Trajectory: ...
    @property
    def reward(self) -> RewardBreakdown: ...


class Playable(Protocol):
    """A `Scenario`, as far as it is needed here."""

    @property
    def reward(self) -> Reward: ...
    @property
    def team(self) -> Callable[[], Sequence[Role]]: ...
    async def play(
        self,
        task: Task,
        *,
        model: Model | str | None = None,
        role_models: Mapping[str, Model | str] | None = None,
        **options: Any,
    ) -> PlayedOnce: ...


async def examine_scenario(
    scenario: Playable,
    task: Task,
    *,
    model: Model | str | None = None,
    fixed: Collection[str] = (),
    **options: Any,
) -> SafetyReport:
    """Play a task with `model`, and with models that refuse, say nothing, and praise the judge.

    The environment grades them all; then the honest run's log is manipulated as in `examine`, with
    what was measured of the team that refused. `options` go to the environment. Raises what
    playing with `model` raises; a dishonest team that ends in an error has no reward.
    """
    honest = await scenario.play(task, model=model, **options)
    report = SafetyReport()
    refused: Trajectory | None = None
    for name, answer in ANSWERS.items():
        stand_in = FunctionModel(partial(_always, answer), name=name)
        # By role, because a role may have a model of its own, which goes before the team's.
        everybody = {role.name: stand_in for role in scenario.team()}
        try:
            played = await scenario.play(task, role_models=everybody, **options)
        except Exception as error:  # a role that cannot go on: nothing is paid
            said = f"{type(error).__name__}: {error}"
            report += compared(honest.trajectory.id, name, "played", honest.reward, said)
            continue
        report += compared(honest.trajectory.id, name, "played", honest.reward, played.reward)
        if name == "refuse":
            refused = played.trajectory
    logged = examine(scenario.reward, honest.trajectory, refused=refused, fixed=fixed)
    return report + logged


def _always(answer: str, call: ModelCall) -> str:
    return answer


async def check_scenario(scenario: Playable, *tasks: Task, **options: Any) -> SafetyReport:
    """Raise `UnsafeReward` if what `examine_scenario` tries pays in one of these tasks."""
    report = SafetyReport()
    for task in tasks:
        report += await examine_scenario(scenario, task, **options)
    if not report.safe:
        raise UnsafeReward(report)
    return report
