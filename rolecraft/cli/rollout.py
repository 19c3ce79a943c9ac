"""`rolecraft rollout`: many episodes of a scenario at once."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import traceback
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models
from rolecraft.cli._options import BaseUrl, Debug, Json, Model, RoleModel, Seed
from rolecraft.cli._output import Output
from rolecraft.cli._ray import keep, ray_stages
from rolecraft.cli._scenarios import (
    SCENARIOS,
    different_tasks,
    find_scenario,
    has_tasks,
    untrained_model,
)
from rolecraft.cli._target import user_errors
from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.environments.task import Split, Task
    from rolecraft.rollouts import PipelineEvent, PipelineSettings, Stages
    from rolecraft.rollouts.folder import RolloutFolder
    from rolecraft.scenarios import Episode, Scenario


Failures = dict[tuple[str, str, str], list[Exception]]
"""Errors by how it ended, their text, and where in the user's code they came from."""

_SPLITS: dict[str, tuple[Split, ...]] = {
    "train": ("train",),
    "test": ("test",),
    "all": ("train", "test"),
}
_MANY = 10_000
"""Tasks that take their time to be drawn."""
_TOLD = 5
"""Errors that are told on the terminal, each with the number of its rollouts."""


def rollout(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO", help=f"{', '.join(SCENARIOS)}, or FILE.py:NAME of your own."
        ),
    ],
    tasks: Annotated[int, typer.Option("--tasks", min=1, help="Different tasks.")] = 20,
    attempts: Annotated[int, typer.Option("--attempts", min=1, help="Episodes of each task.")] = 1,
    model: Model = None,
    role_model: RoleModel = None,
    base_url: BaseUrl = None,
    split: Annotated[
        str, typer.Option("--split", help="Tasks for `train`, for `test`, or `all`: of both.")
    ] = "train",
    live: Annotated[
        int, typer.Option("--live", min=1, help="Environments that are alive at once.")
    ] = 16,
    run: Annotated[
        int | None, typer.Option("--run", min=1, help="Of these, so many whose roles act at once.")
    ] = None,
    prepare: Annotated[
        int | None, typer.Option("--prepare", min=1, help="So many that are set up at once.")
    ] = None,
    grade: Annotated[
        int | None, typer.Option("--grade", min=1, help="So many that are graded at once.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0.001, help="Longest time in which the roles may act."),
    ] = 3600.0,
    tries: Annotated[
        int, typer.Option("--tries", min=1, help="Tries where a machine or a model fails.")
    ] = 3,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="Folder for all.")
    ] = Path("rollouts"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what is in the folder.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="On this Ray cluster; `local` starts one."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="With --ray: actors; one on each machine if unset."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Play many tasks of a scenario at once; with --resume the same command goes on."""
    from rolecraft.rollouts import PipelineSettings, ScenarioStages
    from rolecraft.rollouts.folder import RolloutFolder

    with Output(json=json, makes=True) as output:
        if workers is not None and ray is None:
            raise CommandLineError("`--workers` goes with `--ray`: they are those of a cluster.")
        found = find_scenario(scenario, "rolled out")
        models = Models(model, role_model, base_url=base_url)
        models.check_roles(role.name for role in found.team())
        models.check_keys()
        drawn = _draw(found, tasks, seed, split, output)
        untrained = untrained_model(found, models.everyone, seed)
        if untrained is not None:
            output.note("No --model was given: the roles have the scenario's untrained model.")
        settings = PipelineSettings(
            live=live,
            prepare=prepare,
            run=run,
            grade=grade,
            run_seconds=seconds,
            attempts=tries,
        )
        if resume and not (out / "plan.json").exists():
            output.note(f"`{out}` has nothing to go on with: all is played from the beginning.")
        about = {"scenario": found.name, "split": split, "model": model, "roles": role_model or []}
        with (
            RolloutFolder(out, drawn, attempts, seed=seed, resume=resume, about=about) as folder,
            user_errors("the rollouts failed"),
        ):
            stages: Stages[Task, Any, Episode]
            if ray is None:
                stages = ScenarioStages(
                    found,
                    model=models.everyone if untrained is None else untrained,
                    role_models=models.per_role,
                    journal=folder.journal,
                )
            else:
                stages = ray_stages(
                    scenario,
                    folder,
                    address=ray,
                    live=live,
                    workers=workers,
                    model=model,
                    role_models=role_model or [],
                    base_url=base_url,
                    seed=seed,
                )
            try:
                failed = asyncio.run(_play(stages, folder, settings, models, output))
            except KeyboardInterrupt:
                output.note(f"What is over is in `{folder.results}`. {_go_on()}")
                raise
        _tell(folder, failed, output, debug=debug)


def _draw(scenario: Scenario, count: int, seed: int, split: str, output: Output) -> list[Task]:
    """The tasks; where there are fewer than `count`, it says so."""
    if split not in _SPLITS:
        raise CommandLineError(f"`--split {split}`: write {', '.join(_SPLITS)}.")
    if count > _MANY:
        output.note(f"Drawing {count:,} tasks.")
    with user_errors(f"the tasks of `{scenario.name}` could not be drawn"):
        drawn = different_tasks(scenario, count, seed, _SPLITS[split])
        if len(drawn) < count:
            text = f"`{scenario.name}` has {len(drawn)} tasks"
            text += " for `train` and `test` together" if split == "all" else f" for `{split}`"
            text += f", and not {count:,}: each is played"
            other = {"train": "test", "test": "train"}.get(split)
            if other and has_tasks(scenario, _SPLITS[other][0], seed):
                text += f". There are more for `{other}`; `--split all` plays both"
            output.note(f"{text}.")
    return drawn


async def _play(
    stages: Stages[Task, Any, Episode],
    folder: RolloutFolder,
    settings: PipelineSettings,
    models: Models,
    output: Output,
) -> Failures:
    """Play what is left. What raised, by the words for it."""
    from rolecraft.rollouts import rollouts
    from rolecraft.rollouts.dashboard import Dashboard

    waiting = [*folder.to_play()]
    if not waiting:
        output.note(f"All {len(folder.attempts)} are over already: nothing is left to play.")
        await models.aclose()
        return {}
    if len(waiting) < len(folder.attempts):
        over = len(folder.attempts) - len(waiting)
        output.note(f"{over} of {len(folder.attempts)} are over; the others are played.")
    shown = Dashboard(settings, total=len(waiting), console=output.progress)

    def heard(event: PipelineEvent) -> None:
        shown(event)
        wrong = event.rollout.error if event.rollout is not None else None
        if isinstance(wrong, UsageError) and event.ended != "grading" and shown.tally.done == 1:
            raise wrong  # a model that nobody named, say: it is the same for every task

    failed: Failures = {}
    try:
        with shown:
            async with aclosing(rollouts(stages, waiting, settings, on_event=heard)) as done:
                async for rollout in done:
                    keep(folder, rollout)
                    line = folder.add(rollout)
                    output.result(line)
                    if rollout.error is not None:
                        told = (line["ended"], line["error"], line["where"])
                        failed.setdefault(told, []).append(rollout.error)
    finally:
        await models.aclose()
    return failed


def _tell(folder: RolloutFolder, failed: Failures, output: Output, *, debug: bool) -> None:
    rows = [folder.over[each.name] for each in folder.attempts if each.name in folder.over]
    rewards = [row.reward for row in rows if row.reward is not None]
    missing = len(folder.attempts) - len(rows)
    prices = [row.usd for row in rows if row.usd is not None]
    summary: dict[str, Any] = {
        "rollouts": len(folder.attempts),
        "over": len(rows),
        "reward": sum(rewards) / len(rewards) if rewards else None,
        "with_reward": len(rewards),
        "calls": sum(row.calls for row in rows),
        "usd": sum(prices) if len(prices) == len(rows) and rows else None,
        "results": os.fspath(folder.results),
    }
    summary["ended"] = dict(sorted(Counter(row.ended for row in rows).items()))
    output.result(summary)
    told = ", ".join(f"{number} {word}" for word, number in summary["ended"].items())
    output.say(f"{len(rows)} of {len(folder.attempts)} rollouts are over: {told or 'none'}.")
    if rewards:
        of = "" if len(rewards) == len(rows) else f" of the {len(rewards)} that have one"
        output.say(f"Mean reward{of}: {summary['reward']:.3f}.")
    for (ended, text, where), errors in [*failed.items()][:_TOLD]:
        at = f" ({where})" if where else ""
        output.warn(f"{len(errors)} ended in `{ended}`: {text}{at}")
        if debug:
            output.warn("".join(traceback.format_exception(errors[0])).rstrip())
    if len(failed) > _TOLD:
        output.warn(f"{len(failed) - _TOLD} other errors are in `{folder.results}`.")
    output.say(f"Results are in `{folder.results}`, records below `{folder.path / 'runs'}`.")
    if missing:
        output.warn(
            f"{missing} could not be played to their end; `{folder.results}` says why. {_go_on()}"
        )
        raise typer.Exit(ExitCode.INCOMPLETE)


def _go_on() -> str:
    words = [*sys.argv[1:], *([] if "--resume" in sys.argv else ["--resume"])]
    return f"Go on: {shlex.join(['rolecraft', *words])}"
