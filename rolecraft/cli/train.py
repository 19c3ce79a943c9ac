"""`rolecraft train`: train the roles of a scenario."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import Debug, Json, Out
from rolecraft.cli._output import Output
from rolecraft.cli._scenarios import SCENARIOS
from rolecraft.cli._target import user_errors
from rolecraft.cli._thinking import ThinkingRoles, thinking_of, thinking_words
from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.training import TrainingRun
    from rolecraft.training.rl.config import TrainConfig

_DEFAULT_OUT = Path("trained")


def train(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCENARIO]",
            show_default=False,
            help=f"{', '.join(SCENARIOS)}, or FILE.py:NAME of your own.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            dir_okay=False,
            help="YAML or JSON with settings, which options override.",
        ),
    ] = None,
    named: Annotated[
        str | None,
        typer.Option("--scenario", metavar="SCENARIO", help="The same as the argument."),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(
            "--reward",
            metavar="FILE.py:NAME",
            help="Reward instead of the scenario's; or the folder of a learned one.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="transformers:PATH or a folder to start from; else the scenario's untrained "
            "model.",
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option("--algorithm", metavar="NAME", help="grpo, dapo, rloo, gspo, ppo, …"),
    ] = None,
    credit: Annotated[
        str | None,
        typer.Option("--credit", metavar="NAME", help="role, team, at_grpo, dr_mas, rae, …"),
    ] = None,
    adapters: Annotated[
        bool | None,
        typer.Option(
            "--adapters/--no-adapters",
            show_default=False,
            help="Train one LoRA adapter per role rather than all weights.",
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate",
            min=0,
            help="Instead of the algorithm's, which is made for large trained models.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Training steps at most. Default: 60.")
    ] = None,
    tasks_per_step: Annotated[
        int | None,
        typer.Option("--tasks-per-step", min=1, help="Different tasks in each step. Default: 64."),
    ] = None,
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
    thinking: ThinkingRoles = None,
    asynchronous: Annotated[
        bool | None,
        typer.Option(
            "--async/--sync", show_default=False, help="Play on while the weights are updated."
        ),
    ] = None,
    max_staleness: Annotated[
        int | None,
        typer.Option(
            "--max-staleness", min=0, help="Policy versions; what is staler is played again."
        ),
    ] = None,
    checkpoint_steps: Annotated[
        int | None,
        typer.Option("--checkpoint-steps", min=1, help="Steps between checkpoints. Default: 20."),
    ] = None,
    tracker: Annotated[
        list[str] | None,
        typer.Option(
            "--tracker",
            metavar="NAME",
            help="tensorboard, wandb or trackio. Can be given several times.",
        ),
    ] = None,
    checks: Annotated[
        bool,
        typer.Option(
            "--checks/--no-checks",
            help="First estimate the memory, and look at template, mask, adapters, log-probs.",
        ),
    ] = True,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FOLDER",
            file_okay=False,
            help="Go on with the training there; its settings are known.",
        ),
    ] = None,
    background: Annotated[
        bool,
        typer.Option("--background", help="Go on when the terminal is closed: `rolecraft runs`."),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="CPU threads of torch; small models want 1."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Makes sampling repeatable. Default: 0.")
    ] = None,
    out: Out = _DEFAULT_OUT,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train the roles of a scenario; writes what was learnt and its curve."""
    with Output(json=json, makes=True) as output:
        if scenario and named and scenario != named:
            raise CommandLineError(
                f"`{scenario}` and `--scenario {named}` are two scenarios: leave one out."
            )
        given: dict[str, Any] = {
            "scenario": scenario or named,
            "reward": reward,
            "model": model,
            "algorithm": algorithm,
            "credit": credit,
            "adapters": adapters,
            "steps": steps,
            "tasks_per_step": tasks_per_step,
            "until": until,
            "freeze": freeze,
            "thinking": thinking_of(thinking),
            "asynchronous": asynchronous,
            "max_staleness": max_staleness,
            "checkpoint_steps": checkpoint_steps,
            "trackers": tracker,
            "threads": threads,
            "seed": seed,
            "out": str(out) if out != _DEFAULT_OUT else None,
        }
        chosen = {name: value for name, value in given.items() if value not in (None, [], {})}
        if resume and "out" in chosen and Path(chosen["out"]).resolve() != resume.resolve():
            raise CommandLineError("`--resume FOLDER` writes to that folder: leave out `--out`.")
        if resume and (config or "scenario" in chosen) and _never_began(resume):
            output.note(f"The training in `{resume}` had not begun when its run ended: it begins.")
            chosen, resume = {**chosen, "out": str(resume)}, None
        try:
            wanted = _settings(chosen, config, resume)
            if learning_rate is not None:
                wanted = wanted.with_learning_rate(learning_rate)
        except UsageError as error:  # what is wrong with the settings is wrong with the command
            raise CommandLineError(str(error)) from error
        if background:
            _in_background(wanted, output, resume=resume is not None)
            return
        from rolecraft.cli._train_run import run_training

        with user_errors("training failed"):
            run = run_training(wanted, output, resume=resume is not None, checks=checks)
        _tell(run, wanted, output)


def _settings(chosen: dict[str, Any], config: Path | None, resume: Path | None) -> TrainConfig:
    """What the command line says, over a file's settings, or over those of a training."""
    from rolecraft.training.rl.config import CONFIG, TrainConfig

    if resume is not None:
        file = config or resume / CONFIG
        if not file.is_file():
            ended = " Its run ended before the training began. Start it again: rolecraft runs "
            again = f"{ended}resume {shlex.quote(str(resume))}" if _never_began(resume) else ""
            raise CommandLineError(
                f"There is no training in `{resume}` to go on with: it has no `{CONFIG}`.{again}"
            )
        return TrainConfig.read(file, {**chosen, "out": str(resume)})
    if config is not None:
        return TrainConfig.read(config, chosen)
    if "scenario" not in chosen:
        raise CommandLineError(
            f"Say what to train: one of {', '.join(SCENARIOS)}, FILE.py:NAME, or --config FILE."
        )
    return TrainConfig.of(chosen, where="`rolecraft train`")


def _never_began(folder: Path) -> bool:
    from rolecraft.cli._train_folder import never_began

    return never_began(folder)


def _in_background(config: TrainConfig, output: Output, *, resume: bool) -> None:
    """Start this training as a run of its own.

    What is wrong with its folder or its roles is said here, and not in a log.
    """
    from rolecraft.cli._background import go_on_in_background
    from rolecraft.cli._train_folder import check_place, way_on
    from rolecraft.cli._train_run import what_is_trained
    from rolecraft.cli._training import writing_to

    with user_errors("the training cannot be started"):
        what_is_trained(config)
    out = Path(config.out)
    with writing_to(out):
        check_place(out, resume=resume)
    go_on_in_background(out, output, way_on=way_on(out))


def _tell(run: TrainingRun, config: TrainConfig, output: Output) -> None:
    from rolecraft.cli._train_base import model_spec
    from rolecraft.cli._train_folder import BASE
    from rolecraft.cli._train_table import beyond_chance
    from rolecraft.training.rl.loop import SMOOTHING
    from rolecraft.training.rl.records import CURVE, TASKS

    out, reward, cost = Path(config.out), run.mean_reward(), run.cost_per_point()
    output.result(
        {
            "steps": len(run.records),
            "reward": reward,
            "cpu_seconds": round(run.cpu_seconds, 3),
            "model": str(out),
            "curve": str(out / CURVE),
            "tasks": str(out / TASKS),
            "seconds_per_point": None if cost is None else round(cost.seconds, 3),
            "usd_per_point": None if cost is None else cost.usd,
        }
    )
    steps = len(run.records)
    last = "all of them" if steps <= SMOOTHING else f"the last {SMOOTHING} steps"
    output.say(
        f"{steps} step{'s' if steps != 1 else ''}, {run.cpu_seconds:.1f} CPU-seconds; mean reward "
        f"of {last}: {reward:.3f}."
    )
    if cost is not None and beyond_chance([record.reward for record in run.records]):
        usd = f" and ${cost.usd:.4f}" if cost.usd else ""
        output.say(f"Each hundredth of reward gained took {cost.seconds:.2f} s{usd}.")
    if config.adapters:
        places = sorted(path for path in (out / "adapters").iterdir() if path.is_dir())
        again = " ".join(f"--adapter {path.name}={path}" for path in places)
        again = f"--model {model_spec(config.model or str(out / BASE))} {again}"
        what = "Adapters"
    else:
        again, what = f"--model transformers:{out}", "Model"
    again = " ".join(filter(None, [again, thinking_words(config.thinking)]))
    output.say(f"{what}, learning curve and the tasks it saw are in `{out}`; use it as: {again}")
    output.say(
        f"How well it does on others: rolecraft evaluate {config.scenario} {again} "
        f"--trained-on {out}"
    )
    if config.until is not None and reward < config.until:
        output.warn(f"The reward {config.until} was not reached.")
        raise typer.Exit(ExitCode.INCOMPLETE)
