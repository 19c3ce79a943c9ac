"""Many episodes at once, as a list.

Invariant: every task that is put in comes out exactly once, as an episode or as a failure, in the
order of the tasks. What one episode raises costs that episode only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.rollouts.events import PipelineEvent
from rolecraft.rollouts.pipeline import rollouts
from rolecraft.rollouts.result import Rollout
from rolecraft.rollouts.scenario_stages import ScenarioStages
from rolecraft.rollouts.settings import PipelineSettings
from rolecraft.scenarios.scenario import Episode, Scenario

if TYPE_CHECKING:
    from rolecraft.models.base import Model


@dataclass(frozen=True, slots=True)
class Failed:
    """A task whose episode raised."""

    task: Task
    error: Exception


async def collect(
    scenario: Scenario,
    tasks: Sequence[Task],
    *,
    model: Model | str | None = None,
    role_models: Mapping[str, Model | str] | None = None,
    concurrency: int | asyncio.Semaphore = 256,
    on_result: Callable[[Episode | Failed], None] | None = None,
    journal: Callable[[Task], Path] | None = None,
    **options: Any,
) -> list[Episode | Failed]:
    """Play all `tasks`, at most `concurrency` at the same time; one result a task, in order.

    Several calls that are given one semaphore share its places. `on_result` hears of each result
    as it comes. `journal` says where each task is recorded, and is asked when its turn comes; what
    stands there of an episode that was cut off or failed is gone on with. `options` go to the
    environments. A model given as text is made once, for all episodes, and closed at the end;
    raises what making it raises.

    No time limits and no second attempts: for those, and for results as they come, `rollouts`.
    """
    if not tasks:
        return []
    shared = None if isinstance(concurrency, int) else concurrency
    stages = _Sharing(
        shared,
        scenario,
        model=model,
        role_models=role_models,
        journal=journal,
        stuck_after=None,
        **options,
    )
    settings = PipelineSettings(
        # With shared places all tasks stand in line for them at once, behind those of other calls.
        live=min(concurrency, len(tasks)) if isinstance(concurrency, int) else len(tasks),
        prepare_seconds=None,
        run_seconds=None,
        grade_seconds=None,
        close_seconds=None,
        attempts=1,
        tool_workers=None,
    )

    def heard(event: PipelineEvent) -> None:
        if event.what == "done" and on_result is not None:
            assert event.rollout is not None
            on_result(_result(event.rollout))

    results: list[Episode | Failed | None] = [None] * len(tasks)
    hears = None if on_result is None else heard
    async with aclosing(rollouts(stages, tasks, settings, on_event=hears)) as done:
        async for rollout in done:
            results[rollout.index] = _result(rollout)
    return [result for result in results if result is not None]


class _Sharing(ScenarioStages):
    """The stages of episodes, each of which has a place of `places` while it is alive."""

    def __init__(self, places: asyncio.Semaphore | None, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._places = places

    async def prepare(self, item: Task) -> TaskEnvironment:
        if self._places is None:
            return await super().prepare(item)
        await self._places.acquire()
        try:
            return await super().prepare(item)
        except BaseException:
            self._places.release()
            raise

    async def close(self, item: Task, live: TaskEnvironment) -> None:
        try:
            await super().close(item, live)
        finally:
            if self._places is not None:
                self._places.release()


def _result(rollout: Rollout[Task, Episode]) -> Episode | Failed:
    if rollout.episode is not None:
        return rollout.episode
    assert rollout.error is not None
    return Failed(rollout.item, rollout.error)


def episodes(results: Sequence[Episode | Failed]) -> list[Episode]:
    """The episodes among the results; raises the error of the first failure, if there is one."""
    for result in results:
        if isinstance(result, Failed):
            result.error.add_note(f"in the episode of task {result.task.id!r}")
            raise result.error
    return [result for result in results if isinstance(result, Episode)]
