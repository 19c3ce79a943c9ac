"""`rolecraft train`: train the roles of a scenario."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models
from rolecraft.cli._options import Debug, Json, Out, Seed
from rolecraft.cli._output import Output
from rolecraft.cli._target import load_target, user_errors
from rolecraft.cli._training import step_record, step_words, use_threads
from rolecraft.errors import UnknownName

if TYPE_CHECKING:
    from rolecraft.scenarios import Scenario
    from rolecraft.training import StepRecord, TrainingRun

SCENARIOS = {"relay": "rolecraft.scenarios.relay"}
"""Scenarios that come with Rolecraft: the module of each, where it has the same name."""


def train(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO", help=f"{', '.join(SCENARIOS)}, or FILE.py:NAME of your own."
        ),
    ],
    steps: Annotated[int, typer.Option("--steps", min=1, help="Training steps at most.")] = 60,
    tasks_per_step: Annotated[
        int, typer.Option("--tasks-per-step", min=1, help="Different tasks in each step.")
    ] = 64,
    until: Annotated[
        float | None,
        typer.Option("--until", help="Stop when the last ten steps have this mean reward."),
    ] = None,
    freeze: Annotated[
        list[str] | None,
        typer.Option(
            "--freeze",
            metavar="ROLE",
            help="Do not train this role: it answers at random. Can be given several times.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="transformers:PATH to start from; else the scenario's untrained model.",
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option("--threads", min=1, help="CPU threads of torch; small models want 1.")
    ] = 1,
    seed: Seed = 0,
    out: Out = Path("trained"),
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train the roles of a scenario; writes the model and its learning curve."""
    output = Output(json=json)
    with output.user_code():
        found = _find(scenario)
        if out.exists() and any(out.iterdir()):
            raise CommandLineError(f"`--out {out}` is not empty. Name another folder.")
        use_threads(threads)
        models = Models(model)
        with user_errors("training failed"):
            run = asyncio.run(
                _train(found, models, steps, tasks_per_step, until, freeze or (), seed, output)
            )
    try:
        run.save(out)
    except OSError as error:
        raise CommandLineError(f"Cannot write to `{out}`: {error.strerror}.") from error
    reward = run.mean_reward()
    reached = until is None or reward >= until
    output.result(
        {
            "steps": len(run.records),
            "reward": reward,
            "cpu_seconds": round(run.cpu_seconds, 3),
            "model": str(out),
            "curve": str(out / "training.jsonl"),
        }
    )
    output.say(
        f"{len(run.records)} steps, {run.cpu_seconds:.1f} CPU-seconds; mean reward of the last "
        f"ten steps: {reward:.3f}."
    )
    output.say(f"Model and learning curve are in `{out}`; use it as: --model transformers:{out}")
    if not reached:
        output.warn(f"The reward {until} was not reached.")
        raise typer.Exit(ExitCode.INCOMPLETE)


def _find(name: str) -> Scenario:
    from rolecraft.scenarios import Scenario

    if name in SCENARIOS:
        found = getattr(import_module(SCENARIOS[name]), name)
    elif ":" in name or name.endswith(".py"):
        found = load_target(name)
    else:
        hint = "Or write FILE.py:NAME for one of your own."
        raise CommandLineError(str(UnknownName("Scenario", name, SCENARIOS, hint=hint)))
    if not isinstance(found, Scenario):
        raise CommandLineError(
            f"`{name}` is {found!r}; only a `Scenario` can be trained: it has tasks and a reward."
        )
    return found


async def _train(
    scenario: Scenario,
    models: Models,
    steps: int,
    tasks_per_step: int,
    until: float | None,
    freeze: Collection[str],
    seed: int,
    output: Output,
) -> TrainingRun:
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.training import train

    if not (models.everyone is None or isinstance(models.everyone, TransformersModel)):
        raise CommandLineError("`--model` must be a local one: transformers:PATH.")
    names = [role.name for role in scenario.team()]
    for name in freeze:
        if name not in names:
            raise CommandLineError(f"`--freeze`: {UnknownName('Role', name, names)}")
    if set(names) <= set(freeze):
        raise CommandLineError("`--freeze` names every role: nothing is left to train.")
    if models.everyone is None and scenario.untrained is None:
        raise CommandLineError(
            f"Scenario `{scenario.name}` brings no untrained model; say which one to start from: "
            f"--model transformers:PATH."
        )
    with output.bar(f"Training {scenario.name}", steps) as progress:

        def on_step(record: StepRecord) -> None:
            output.result(step_record(record))
            progress(step_words(record))

        return await train(
            scenario,
            model=models.everyone,
            steps=steps,
            tasks_per_step=tasks_per_step,
            frozen=freeze,
            seed=seed,
            until=until,
            on_step=on_step,
        )
