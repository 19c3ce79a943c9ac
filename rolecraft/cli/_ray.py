"""Rollouts of a command on a Ray cluster: what each worker makes of the command's words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rolecraft.cli._models import Models
from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.environments.task import Task
    from rolecraft.rollouts import Rollout, ScenarioStages
    from rolecraft.rollouts.folder import RolloutFolder
    from rolecraft.rollouts.remote import RayStages
    from rolecraft.scenarios import Episode


def ray_stages(
    scenario: str,
    folder: RolloutFolder,
    *,
    address: str,
    live: int,
    workers: int | None,
    model: str | None,
    role_models: Sequence[str],
    base_url: str | None,
    seed: int,
) -> RayStages[Task, Episode]:
    """Stages in the cluster at `address`, for `live` items of `folder` at once.

    The arguments are those of the command: what they name is loaded by each worker, from the same
    folder as here where it has that.
    """
    from rolecraft.rollouts.remote import RayStages

    file, separator, name = scenario.rpartition(":")
    if separator:
        scenario = f"{Path(file).resolve()}:{name}"
    made = MadeThere(
        scenario=scenario,
        here=os.getcwd(),
        model=model,
        role_models=tuple(role_models),
        base_url=base_url,
        seed=seed,
        journals=SharedJournals(
            results=folder.results.resolve(),
            paths={
                (task.id, task.seed): folder.journal(task).resolve() for task in folder.to_play()
            },
        ),
    )
    # Any worker may have to take all that others have lost.
    return RayStages(made, address=address, workers=workers, places=live)


def keep(folder: RolloutFolder, rollout: Rollout[Task, Episode]) -> None:
    """Write the journal of an episode whose worker does not see the folder of this machine."""
    if rollout.trajectory is not None:
        path = folder.journal(rollout.item)
        path.unlink(missing_ok=True)
        rollout.trajectory.save(path)


@dataclass(frozen=True, slots=True)
class SharedJournals:
    """Where tasks are recorded, on machines that see the folder; elsewhere they are not, and what
    was recorded comes back with the result.
    """

    results: Path
    paths: Mapping[tuple[str, int], Path]
    """By the task's id and its seed, in which attempts at one task differ."""

    def __call__(self, task: Task) -> Path | None:
        return self.paths[task.id, task.seed] if self.results.exists() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeThere:
    """Makes the stages, in a worker."""

    scenario: str
    here: str
    model: str | None
    role_models: tuple[str, ...]
    base_url: str | None
    seed: int
    journals: SharedJournals

    def __call__(self) -> ScenarioStages:
        from rolecraft.cli._scenarios import find_scenario, untrained_model
        from rolecraft.rollouts import ScenarioStages

        if os.path.isdir(self.here):
            os.chdir(self.here)  # names of modules are found from here; the process is ours alone
        try:
            scenario = find_scenario(self.scenario, "rolled out")
        except typer.Exit as error:
            raise UsageError(
                f"`{self.scenario}` could not be loaded by a worker: {error.__context__!r}."
            ) from error
        # They are closed with the process, which has no other use.
        models = Models(self.model, self.role_models, base_url=self.base_url)
        untrained = untrained_model(scenario, models.everyone, self.seed)
        model = models.everyone if untrained is None else untrained
        options: dict[str, Any] = {"model": model, "role_models": models.per_role}
        return ScenarioStages(scenario, journal=self.journals, **options)
