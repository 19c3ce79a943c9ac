"""A scenario that plays rows as its tasks, and scores them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.models.base import Model
from rolecraft.models.limits import Limits
from rolecraft.models.resolve import resolve_model
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.items import Item
from rolecraft.rollouts.batch.stages import BatchStages, Playing, limits_of, tools_of
from rolecraft.rollouts.batch.team_stages import check_price
from rolecraft.rollouts.endings import Ended
from rolecraft.rollouts.events import in_short
from rolecraft.rollouts.scenario_stages import ScenarioStages
from rolecraft.scenarios.scenario import Scenario
from rolecraft.trajectories.trajectory import Trajectory


class TaskStages(BatchStages):
    """Rows are tasks of a scenario: the prompt, and the whole row as `data`. They are scored.

    Where they are played is for the scenario's environment to say, of a column `sandbox` too.
    """

    in_sandboxes = False

    def __init__(
        self,
        scenario: Scenario,
        config: BatchConfig,
        *,
        model: Model | str | None = None,
        role_models: Mapping[str, Model | str] | None = None,
    ) -> None:
        super().__init__(config)
        limits = limits_of(config, None)
        if config.rounds is not None:
            limits = replace(limits or Limits(), rounds=config.rounds, on_limit="stop")
        options: dict[str, Any] = {} if limits is None else {"limits": limits}
        if model is None and scenario.models is None and scenario.untrained is not None:
            model = scenario.untrained(config.seed)
        self._scenario = scenario
        self._inner = ScenarioStages(scenario, model=model, role_models=role_models, **options)
        self._tools = tools_of(scenario.team())

    @property
    def tools(self) -> tuple[str, ...]:
        return self._tools

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        try:
            if self.config.usd is not None:
                for spec in {self._inner.model_of(role) for role in self._scenario.team()}:
                    await _check_price(spec)
        except BaseException:
            await self._inner.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)

    async def _begin(self, item: Item) -> Playing:
        return Playing(await self._inner.prepare(_task(item)))

    async def _play(self, item: Item, live: Playing) -> Ended:
        return await self._inner.run(_task(item), _task_of(live))

    async def _measure(self, item: Item, live: Playing) -> tuple[Trajectory, dict[str, Any]]:
        trajectory = await _task_of(live).measure()
        try:
            episode = await self._scenario.scored(_task(item), trajectory)
        except Exception as error:  # what was played is kept; a reward that fails is no reward of 0
            return trajectory, {"error": f"the reward: {in_short(error)}"}
        value = float(episode.reward.value)
        if not math.isfinite(value):
            return trajectory, {"error": f"the reward is {value}"}
        return trajectory, {"reward": value}

    async def _end(self, item: Item, live: Playing) -> None:
        await _task_of(live).end()


async def _check_price(spec: Model | str | None) -> None:
    """Raise `UsageError` for a model without a price, which may be given as text."""
    if not isinstance(spec, str):
        await check_price(spec)
        return
    model = await asyncio.to_thread(resolve_model, spec)
    try:
        await check_price(model)
    finally:
        await model.aclose()


def _task(item: Item) -> Task:
    return Task(item.id.name, item.prompt, data=item.row.fields, seed=item.seed)


def _task_of(live: Playing) -> TaskEnvironment:
    assert isinstance(live.env, TaskEnvironment)
    return live.env
