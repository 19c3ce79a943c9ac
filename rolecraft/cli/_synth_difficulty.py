"""`rolecraft synth difficulty`: how often a solver solves the tasks."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import is_stand_in
from rolecraft.cli._options import BaseUrl, Debug, Json, Seed
from rolecraft.cli._output import Output
from rolecraft.cli._synth_model import (
    OF_A_PLAYER,
    Price,
    RetryTimes,
    Timeout,
    asked_model,
    in_options,
    options_for,
)
from rolecraft.cli._synth_options import Folder

if TYPE_CHECKING:
    from rolecraft.cli._models import Models
    from rolecraft.models import Model
    from rolecraft.synthesis.difficulty.measure import Measured
    from rolecraft.synthesis.folder import SynthesisFolder

_TOLD = 5


def difficulty(
    folder: Folder,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="The model that plays, as in `run`."),
    ] = None,
    base_url: BaseUrl = None,
    price: Price = None,
    timeout: Timeout = None,
    retries: RetryTimes = None,
    solver: Annotated[
        str | None,
        typer.Option(
            "--solver",
            metavar="FILE.py:NAME",
            help="A stand-in for a model: a function from the list of instances to one. "
            "`reference` knows the solutions, `nothing` does nothing.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="What the solver is called in the figures."),
    ] = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="Play nothing: take the attempts from records of `evaluate`, `rollout` or `run`. "
            "Can be given several times.",
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            "--attempts",
            "-n",
            min=1,
            help="Play each task so often: 4 times unless given, once with a built-in solver, "
            "which does the same each time.",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="ID", help="Only this task. Can be given several times."),
    ] = None,
    live: Annotated[int, typer.Option("--live", min=1, help="Sandboxes at once.")] = 4,
    usd: Annotated[
        float | None,
        typer.Option(
            "--usd",
            min=0.0,
            help="Begin no further attempt when this call has spent so much; what calls before it "
            "spent does not count.",
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Record how often a solver solves each gathered task; the same command goes on."""
    from rolecraft.synthesis.difficulty.attempts import BUILT_IN
    from rolecraft.synthesis.folder import SynthesisFolder

    given = [each for each in (model, solver, from_ or None) if each is not None]
    if len(given) != 1:
        raise CommandLineError("Say who solves: one of `--model`, `--solver` and `--from`.")
    with Output(json=json, makes=True) as output, in_options(OF_A_PLAYER):
        found = SynthesisFolder(folder)
        label = name or model or _label(solver or "")
        if label in BUILT_IN and label != solver:
            raise CommandLineError(
                f"`--as {label}` is what a built-in solver is called: choose another name."
            )
        models = asked_model(
            model, base_url, price=price, timeout=timeout, retries=retries, debug=debug
        )
        if from_:
            _record(found, from_, name or "", output)
            return
        player = models.everyone if models is not None else _solver(found, solver or "")
        assert player is not None
        measured = asyncio.run(
            _measure(
                found,
                player,
                models,
                output,
                solver=label,
                attempts=attempts or (1 if solver in BUILT_IN else 4),
                tasks=task,
                live=live,
                usd=usd,
                seed=seed,
            )
        )
        _tell(measured, folder, output)


def _record(folder: SynthesisFolder, paths: list[Path], name: str, output: Output) -> None:
    from rolecraft.synthesis.difficulty.records import record_from

    for path in paths:
        found = record_from(folder, path, solver=name)
        output.result(
            {
                "path": str(path),
                "added": found.added,
                "known": found.known,
                "others": found.others,
                "stand_ins": found.stand_ins,
            }
        )
        output.say(
            f"{found.added:,} attempts of `{path}` were added; {found.known:,} were known, "
            f"{found.others:,} files are no attempts at these tasks."
        )
        if found.stand_ins:
            output.note(
                f"{found.stand_ins:,} are of stand-ins that know the solution or do nothing: no "
                f"pass rate counts them."
            )


def _label(spec: str) -> str:
    return Path(spec).name if is_stand_in(spec) else spec


def _solver(folder: SynthesisFolder, spec: str) -> Model:
    """What stands in for a model."""
    from rolecraft.cli._target import load_file, user_errors
    from rolecraft.environments.software_engineering.examples.solvers import (
        null_solver,
        patching_solver,
    )
    from rolecraft.models import Model
    from rolecraft.synthesis.gathering.tasks import gathered_tasks

    instances = [*gathered_tasks(folder).instances.values()]
    ours: dict[str, Callable[[Any], Model]] = {
        "reference": patching_solver,
        "nothing": null_solver,
    }
    make = ours.get(spec)
    if make is None:
        if not is_stand_in(spec):
            known = ", ".join(f"`{each}`" for each in ours)
            raise CommandLineError(f"`--solver {spec}`: write FILE.py:NAME, or one of {known}.")
        file, _, name = spec.rpartition(":")
        make = getattr(load_file(file), name, None)
        if not callable(make):
            raise CommandLineError(f"`--solver {spec}`: there is no function {name!r} in `{file}`.")
    with user_errors(f"`{spec}` failed"):
        made = make(instances)
    if not isinstance(made, Model):
        raise CommandLineError(f"`--solver {spec}` returned {made!r}: return a `Model`.")
    return made


async def _measure(
    folder: SynthesisFolder, player: Model, models: Models | None, output: Output, **options: Any
) -> Measured:
    from rolecraft.rollouts import PipelineSettings
    from rolecraft.rollouts.dashboard import Dashboard
    from rolecraft.synthesis.difficulty.measure import measure

    shown = Dashboard(PipelineSettings(live=options["live"]), console=output.progress)
    try:
        with shown:
            return await measure(folder, model=player, on_event=shown, **options)
    finally:
        if models is not None:
            await models.aclose()


def _tell(measured: Measured, folder: Path, output: Output) -> None:
    rate = measured.resolved / measured.attempts if measured.attempts else None
    output.result(
        {
            "solver": measured.solver,
            "attempts": measured.attempts,
            "resolved": measured.resolved,
            "pass_rate": rate,
            "played": measured.played,
            "failed": len(measured.failed),
            "not_begun": measured.not_begun,
            "usd": measured.usd,
        }
    )
    share = "" if rate is None else f", {rate:.0%}"
    output.say(
        f"{measured.solver}: {measured.resolved:,} of {measured.attempts:,} attempts resolved"
        f"{share}; {measured.played:,} were played now."
    )
    for text in measured.failed[:_TOLD]:
        output.warn(options_for(text, OF_A_PLAYER))
    if len(measured.failed) > _TOLD:
        output.warn(f"And {len(measured.failed) - _TOLD:,} others that say nothing of the solver.")
    if measured.not_begun:
        output.warn(f"{measured.not_begun:,} attempts were not begun: `--usd` was spent.")
    output.say(f"Look at it: rolecraft synth stats {shlex.quote(str(folder))}")
    if measured.failed or measured.not_begun:
        raise typer.Exit(ExitCode.INCOMPLETE)
