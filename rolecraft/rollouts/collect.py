"""Many episodes at once.

Invariant: every task that is put in comes out exactly once, as an episode or as a failure, in the
order of the tasks. What one episode raises costs that episode only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.environments.task import Task
from rolecraft.models.resolve import resolve_model
from rolecraft.rollouts.heap import set_aside
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
    """
    slots = asyncio.Semaphore(concurrency) if isinstance(concurrency, int) else concurrency
    made: dict[str, Model] = {}

    async def resolved(spec: Model | str) -> Model:
        if not isinstance(spec, str):
            return spec
        if spec not in made:
            # In a thread: loading a local model takes seconds.
            made[spec] = await asyncio.to_thread(resolve_model, spec)
        return made[spec]

    async def play(task: Task) -> Episode | Failed:
        result: Episode | Failed
        async with slots:
            try:
                path = None if journal is None else journal(task)
                models: dict[str, Any] = {"model": ours, "role_models": by_role}
                if path is not None and await asyncio.to_thread(_begun, path):
                    result = await scenario.recover(task, path, **models, **options)
                else:
                    own: dict[str, Any] = {} if path is None else {"journal": path}
                    result = await scenario.play(task, **models, **own, **options)
            except Exception as error:  # reported as this task's result
                result = Failed(task, error)
        if on_result is not None:
            on_result(result)
        return result

    try:
        ours = None if model is None else await resolved(model)
        by_role = {name: await resolved(spec) for name, spec in (role_models or {}).items()}
        with set_aside():
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(play(task)) for task in tasks]
    finally:
        for its_model in made.values():
            await its_model.aclose()
    return [task.result() for task in running]


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


def episodes(results: Sequence[Episode | Failed]) -> list[Episode]:
    """The episodes among the results; raises the error of the first failure, if there is one."""
    for result in results:
        if isinstance(result, Failed):
            result.error.add_note(f"in the episode of task {result.task.id!r}")
            raise result.error
    return [result for result in results if isinstance(result, Episode)]
