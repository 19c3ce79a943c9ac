"""`rolecraft train`: train the roles of a scenario."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from importlib import import_module
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models
from rolecraft.cli._options import Debug, Json, Out, Seed
from rolecraft.cli._output import Output
from rolecraft.cli._target import load_target, user_errors
from rolecraft.cli._training import step_record, step_words, use_threads, writing_to
from rolecraft.errors import UnknownName

if TYPE_CHECKING:
    from rolecraft.models import Model
    from rolecraft.models.transformers_model import TransformersModel
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
    with Output(json=json, makes=True) as output:
        found = _find(scenario)
        models = Models(model)
        _check(found, models, freeze or ())
        use_threads(threads)
        folder = _Folder(out)
        with user_errors("training failed"):
            run = asyncio.run(
                _train(
                    found,
                    models.everyone,
                    folder,
                    output,
                    steps=steps,
                    tasks_per_step=tasks_per_step,
                    until=until,
                    frozen=freeze or (),
                    seed=seed,
                )
            )
        reward = run.mean_reward()
        output.result(
            {
                "steps": len(run.records),
                "reward": reward,
                "cpu_seconds": round(run.cpu_seconds, 3),
                "model": str(out),
                "curve": str(folder.curve),
            }
        )
        output.say(
            f"{len(run.records)} steps, {run.cpu_seconds:.1f} CPU-seconds; mean reward of the last "
            f"ten steps: {reward:.3f}."
        )
        output.say(
            f"Model and learning curve are in `{out}`; use it as: --model transformers:{out}"
        )
        if until is not None and reward < until:
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


def _check(scenario: Scenario, models: Models, freeze: Collection[str]) -> None:
    """Raise `CommandLineError` for what cannot be trained, before anything is made or played."""
    from rolecraft.models.transformers_model import TransformersModel

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


async def _train(
    scenario: Scenario,
    given: Model | None,
    folder: _Folder,
    output: Output,
    *,
    steps: int,
    seed: int,
    **options: Any,
) -> TrainingRun:
    """Train, and leave what was learnt in `folder`, however training ends."""
    from rolecraft.training import FROM_SCRATCH, GRPO, train

    # The model is made here, so that there is one to save when training does not come to its end.
    model, algorithm = given, GRPO()
    if model is None:
        assert scenario.untrained is not None
        model, algorithm = scenario.untrained(seed), FROM_SCRATCH
    policy = cast("TransformersModel", model)
    try:
        with output.bar(f"Training {scenario.name}", steps) as progress:

            def on_step(record: StepRecord) -> None:
                folder.add(record)
                output.result(step_record(record))
                progress(step_words(record))

            run = await train(
                scenario,
                model=policy,
                algorithm=algorithm,
                steps=steps,
                seed=seed,
                on_step=on_step,
                **options,
            )
    except BaseException:
        await folder.rescue(policy, output)
        raise
    await folder.save(policy)
    return run


class _Folder:
    """Where a training goes: its curve a line at a time, so that no end of it costs what was."""

    def __init__(self, path: Path) -> None:
        """Raises `CommandLineError` for a folder that is not empty or cannot be written to."""
        self.path = path
        self.curve = path / "training.jsonl"
        self.steps = 0
        with writing_to(path):
            self._made = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise CommandLineError(f"`--out {path}` is not empty. Name another folder.")
            self.curve.touch()

    def add(self, record: StepRecord) -> None:
        with writing_to(self.path), self.curve.open("a", encoding="utf-8") as curve:
            curve.write(dumps(step_record(record)) + "\n")
        self.steps += 1

    async def save(self, model: TransformersModel) -> None:
        """Write the weights once the update under way has ended: never half of one."""
        from safetensors import SafetensorError

        with writing_to(self.path):
            try:
                await model.run(lambda: model.save(self.path))
            except SafetensorError as error:  # how it reports a full disk
                raise OSError(str(error)) from error

    async def rescue(self, model: TransformersModel, output: Output) -> None:
        """Save what an unfinished training learnt; if that is nothing, leave nothing behind."""
        if self.steps:
            try:
                await self.save(model)
            except CommandLineError as error:  # the reason why training ended comes first
                output.warn(f"What was learnt is lost. {error}")
            else:
                steps = f"{self.steps} step{'s' if self.steps > 1 else ''}"
                output.note(f"What was learnt in {steps} is in `{self.path}`.")
            return
        with contextlib.suppress(OSError):
            self.curve.unlink()
            if self._made:
                self.path.rmdir()
