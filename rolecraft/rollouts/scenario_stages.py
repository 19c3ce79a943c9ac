"""The stages of a scenario's episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.errors import UsageError
from rolecraft.models.resolve import resolve_model
from rolecraft.rollouts.endings import Ended, crossed, of_stop
from rolecraft.rollouts.stuck import TURNS, StuckWatch
from rolecraft.scenarios.scenario import Episode, Scenario
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.roles.role import Role


class ScenarioStages:
    """Plays tasks of `scenario`: set up, act, grade and score, close.

    `model` serves every role, `role_models` overrides it by role name. `journal` says where a task
    is recorded, and is asked when its turn comes; what stands there of an episode that was cut off
    or failed is gone on with, so a second attempt asks nothing again. `options` go to the
    environments. A role that does the same `stuck_after` turns running ends its episode; None: it
    may go on.

    Used with `async with`, as `rollouts` does: a model given as text is made once, for all
    episodes, and closed at the end. Entering raises what making one raises.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        model: Model | str | None = None,
        role_models: Mapping[str, Model | str] | None = None,
        journal: Callable[[Task], Path | None] | None = None,
        stuck_after: int | None = TURNS,
        **options: Any,
    ) -> None:
        if stuck_after is not None:
            StuckWatch(stuck_after)  # a wrong number is told now
        self.scenario, self._stuck_after = scenario, stuck_after
        self._model, self._role_models = model, dict(role_models or {})
        self._ready: Model | None = None
        self._ready_by_role: dict[str, Model] = {}
        self._journal, self._options = journal, options
        self._made: dict[str, Model] = {}

    async def __aenter__(self) -> Self:
        try:
            if self._model is not None:
                self._ready = await self._resolved(self._model)
            for name, spec in self._role_models.items():
                self._ready_by_role[name] = await self._resolved(spec)
        except BaseException:
            await self._aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._aclose()

    def model_of(self, role: Role) -> Model | str | None:
        """Whom a role of the scenario's team will ask."""
        asked = (self._ready_by_role.get(role.name), role.model, self._ready, self.scenario.models)
        return next((each for each in asked if each is not None), None)

    async def prepare(self, item: Task) -> TaskEnvironment:
        """The environment, set up. Raises `UsageError` outside of `async with`."""
        if (self._model is not None and self._ready is None) or (
            len(self._ready_by_role) < len(self._role_models)
        ):
            raise UsageError("`ScenarioStages` makes its models in `async with`: enter it first.")
        path = None if self._journal is None else self._journal(item)
        left = path if path is not None and await asyncio.to_thread(_begun, path) else None
        own: dict[str, Any] = {} if path is None or left is not None else {"journal": path}
        environment = self.scenario.make(
            item, model=self._ready, role_models=self._ready_by_role, **own, **self._options
        )
        if self._stuck_after is not None:
            environment.observers = (*environment.observers, StuckWatch(self._stuck_after))
        try:
            await environment.begin(left)
        except BaseException:
            await environment.end()
            raise
        return environment

    async def run(self, item: Task, live: TaskEnvironment) -> Ended:
        """The roles act. Where a role's own steps or actions ran out, it may have been stuck."""
        watch = next((each for each in live.observers if isinstance(each, StuckWatch)), None)
        reason = await live.act()
        limit = crossed(live.trajectory) if reason == "limit" else None
        of_roles = reason in ("finished", "idle", "observer", "limit") and limit is None
        if watch is not None and of_roles:
            if watch.found:
                return "stuck"
            if watch.out_of_steps:
                return "turns"
        return of_stop(reason, limit)

    async def grade(self, item: Task, live: TaskEnvironment) -> Episode:
        """The signals, and the reward for them."""
        return await self.scenario.scored(item, await live.measure())

    async def close(self, item: Task, live: TaskEnvironment) -> None:
        """Close the environment."""
        await live.end()

    def recorded(self, item: object, live: object) -> Trajectory | None:
        """What there is in memory; what is in a journal is read by whoever wants it."""
        assert isinstance(live, TaskEnvironment)
        return live.trajectory if live.begun and live.journal is None else None

    async def _resolved(self, spec: Model | str) -> Model:
        if not isinstance(spec, str):
            return spec
        if spec not in self._made:
            # In a thread: loading a local model takes seconds.
            self._made[spec] = await asyncio.to_thread(resolve_model, spec)
        return self._made[spec]

    async def _aclose(self) -> None:
        made, self._made = self._made, {}
        self._ready, self._ready_by_role = None, {}
        for model in made.values():
            await model.aclose()


def _begun(path: Path) -> bool:
    """Whether a journal says what run it is of: one that was cut off in its first line does not."""
    try:
        with path.open("rb") as file:
            whole = file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False
    if not whole:
        path.unlink()
    return whole
