"""`rolecraft doctor`: whether a model, its template, adapters and reward can be trained."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models
from rolecraft.cli._options import Debug, Json, Seed
from rolecraft.cli._output import Output
from rolecraft.cli._rewards import find_reward
from rolecraft.cli._scenarios import find_scenario, untrained_model
from rolecraft.cli._train_base import find_model

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.rewards import Reward
    from rolecraft.scenarios import Scenario
    from rolecraft.training.doctor import Finding
    from rolecraft.trajectories import Trajectory


def doctor(
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Folder of the model, or transformers:PATH. Default: the scenario's untrained "
            "one, if it has one.",
        ),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            "--adapter",
            metavar="ROLE=FOLDER",
            help="LoRA adapter of one role. Can be given several times.",
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            metavar="NAME",
            help="Play some tasks of it, and check their tokens and rewards: a scenario of ours, "
            "or FILE.py:NAME.",
        ),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(
            "--reward", metavar="FILE.py:NAME", help="Reward to check. Default: the scenario's."
        ),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            "--run", metavar="FILE", help="A stored run to score. Can be given several times."
        ),
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", metavar="NAME", help="Preset, such as dapo.")
    ] = None,
    tasks: Annotated[
        int, typer.Option("--tasks", min=1, help="Tasks to play, a group of attempts at each.")
    ] = 4,
    tasks_per_step: Annotated[
        int, typer.Option("--tasks-per-step", min=1, help="For the estimate of a step's time.")
    ] = 8,
    slow: Annotated[
        float | None,
        typer.Option("--slow", min=0.0, help="Fail if a step would take more seconds than this."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check in seconds whether training would learn what it should; changes no file."""
    from rolecraft.cli._doctor_table import tell

    with Output(json=json) as output:
        adapters = _adapters(adapter or ())
        team = None if scenario is None else find_scenario(scenario, "examined")
        paid = None if reward is None else find_reward(reward)
        spec, folder = find_model(model, output)
        patient = _model(spec, team, seed)
        if adapters and patient is None:
            raise CommandLineError("`--adapter` is of a model: give `--model PATH`.")
        if run and paid is None and team is None:
            raise CommandLineError("`--run` is scored: give `--reward FILE.py:NAME`.")
        if patient is None and paid is None:
            raise CommandLineError("Say what to examine: --model PATH, or --reward and --run.")
        order = _Order(patient, adapters, team, paid, _runs(run or ()), algorithm)
        found = asyncio.run(_examined(order, tasks, tasks_per_step, folder, slow, seed, output))
        tell(found, output)
        if any(each.verdict == "fail" for each in found):
            raise typer.Exit(ExitCode.GATE)


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be examined."""

    model: TransformersModel | None
    adapters: dict[str, Path]
    scenario: Scenario | None
    reward: Reward | None
    runs: Sequence[Trajectory]
    algorithm: str | None


def _adapters(pairs: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for pair in pairs:
        role, equals, folder = pair.partition("=")
        if not (role and equals and folder):
            raise CommandLineError(f"`--adapter {pair}`: write ROLE=FOLDER.")
        if role in found:
            raise CommandLineError(f"`--adapter {pair}`: {role!r} has an adapter already.")
        found[role] = Path(folder)
    return found


def _runs(paths: Sequence[Path]) -> list[Trajectory]:
    from rolecraft.trajectories import load

    return [load(path) for path in paths]


def _model(spec: str | None, scenario: Scenario | None, seed: int) -> TransformersModel | None:
    from rolecraft.models.transformers_model import TransformersModel

    made: Model | None = None
    if spec is not None:
        made = Models(spec).everyone
    elif scenario is not None:
        made = untrained_model(scenario, None, seed)
    if not (made is None or isinstance(made, TransformersModel)):
        raise CommandLineError("`--model` must be a local one: transformers:PATH.")
    if made is None and scenario is not None:
        raise CommandLineError(
            f"Scenario `{scenario.name}` brings no untrained model: give `--model PATH`."
        )
    return made


async def _examined(
    order: _Order,
    tasks: int,
    tasks_per_step: int,
    folder: Path | None,
    slow: float | None,
    seed: int,
    output: Output,
) -> list[Finding]:
    from rolecraft.training import algorithm
    from rolecraft.training.doctor import examine

    found = []
    try:
        async for finding in examine(
            order.model,
            adapters=order.adapters,
            scenario=order.scenario,
            reward=order.reward,
            runs=order.runs,
            algorithm=None if order.algorithm is None else algorithm(order.algorithm),
            tasks=tasks,
            tasks_per_step=tasks_per_step,
            folder=folder,
            slow=slow,
            seed=seed,
        ):
            found.append(finding)
            output.result(finding.to_dict())
    finally:
        if order.model is not None:
            await order.model.aclose()
    return found
