"""What `rolecraft train` does with its settings: the run, its folder, and how it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._models import Models
from rolecraft.cli._output import Output
from rolecraft.cli._rewards import find_reward
from rolecraft.cli._scenarios import find_scenario
from rolecraft.cli._train_base import find_model
from rolecraft.cli._train_checks import check_model, tell_memory
from rolecraft.cli._train_folder import BASE, TrainFolder
from rolecraft.cli._train_table import TrainTable
from rolecraft.cli._training import step_record, use_threads, writing_to
from rolecraft.errors import UnknownName, UsageError
from rolecraft.training.background import StopSignals
from rolecraft.trajectories.whole_file import write_whole

if TYPE_CHECKING:
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.scenarios import Scenario
    from rolecraft.training import AdapterSettings, Algorithm, StepRecord, TrainingRun
    from rolecraft.training.rl.config import TrainConfig


_STOPPING = "Stopping after this step; again to leave now."


def run_training(
    config: TrainConfig, output: Output, *, resume: bool, checks: bool = True
) -> TrainingRun:
    """Train as `config` says, and leave what was learnt in its folder, however training ends.

    With `checks`, unless it is a `resume`, the doctor looks at the model before it plays. Raises
    `CommandLineError` for what cannot be trained, before anything is made or played, and
    `SystemExit` where a check fails, or with the signal's code where it was told to stop.
    """
    from rolecraft.training.rl.config import CONFIG

    checks = checks and not resume
    scenario = what_is_trained(config)
    folder = TrainFolder(Path(config.out), resume=resume)
    try:
        model = _model(config, scenario, output, checks=checks)
    except BaseException:
        folder.clear()
        raise
    before = _settings_before(config, folder.path) if resume else None
    try:
        with folder.claimed(), StopSignals(_STOPPING) as stop:
            with writing_to(folder.path):
                config.save(folder.path)
            run = asyncio.run(_train(config, scenario, model, folder, output, resume, stop))
            if run.stopped:
                steps = f"{len(run.records)} step{'s' if len(run.records) > 1 else ''}"
                output.warn(
                    f"Stopped. What was learnt in {steps} is in `{folder.path}`, with a "
                    f"checkpoint; it goes on with: rolecraft train --resume {folder.path}"
                )
                raise SystemExit(stop.exit_code)  # in the block, which writes down how it ended
    except UsageError:
        if before is not None and not folder.steps:  # what was refused is not gone on with later
            write_whole(folder.path / CONFIG, before)
        raise
    if resume and not folder.steps:
        reached = len(run.records) < config.steps
        limit = f"--until is {config.until:g}" if reached else f"--steps is {config.steps}"
        output.warn(f"Nothing is left to do: {len(run.records)} steps are done, and {limit}.")
    return run


def what_is_trained(config: TrainConfig) -> Scenario:
    """The scenario, with the reward that the config names.

    Raises `CommandLineError` for what cannot be trained, as far as can be told without a model.
    """
    scenario = find_scenario(config.scenario, "trained")
    if config.reward is not None:
        scenario = replace(scenario, reward=find_reward(config.reward))
    _check(scenario, config)
    return scenario


async def _train(
    config: TrainConfig,
    scenario: Scenario,
    model: TransformersModel,
    folder: TrainFolder,
    output: Output,
    resume: bool,
    stop: StopSignals,
) -> TrainingRun:
    from rolecraft.training import FROM_SCRATCH, Algorithm, train
    from rolecraft.training.rl.settings import limits_of
    from rolecraft.training.rl.trackers import tracker

    algorithm = config.make_algorithm()
    if config.model is None:
        algorithm = algorithm or FROM_SCRATCH
        if lent := config.lent():
            values = ", ".join(f"{name} {value:g}" for name, value in lent.items())
            output.note(
                f"The model is untrained, and the algorithm is made for trained ones: it takes "
                f"{values}, as `from_scratch` has them. --learning-rate keeps its own settings."
            )
            if differs := _slow_from_scratch(algorithm):
                output.note(
                    f"Where the reward stays flat, it is for what else is made for trained models: "
                    f"{', and '.join(differs.values())}. In a config (--config) write `algorithm: "
                    f"{_in_yaml(config.algorithm, differs)}`, or leave --algorithm out."
                )
    if config.adapters:  # they are there, as they were served last
        folder.weights = folder.path / BASE if config.model is None else None
    table = TrainTable([role.name for role in scenario.team()], config.steps)
    trackers = [tracker(name, folder.path, warn=output.warn) for name in config.trackers]
    told: list[int] = []

    def on_step(record: StepRecord) -> None:
        if not folder.steps:
            output.say(table.head, style="bold")
        folder.steps += 1
        output.result(step_record(record))
        if (row := table.row(record)) is not None:
            output.say(row)
        if (lost := record.failed + record.unscored) and not told:
            told.append(record.step)
            output.warn(
                f"{lost} attempts of step {record.step + 1} were left out: they failed in grading "
                f"or around the team, or had no reward. If your reward cannot score some runs, the "
                f"others are no fair sample. `failed` and `unscored` in `training.jsonl` count on."
            )

    try:
        run = await train(
            scenario,
            model=model,
            algorithm=algorithm or Algorithm(),
            credit=config.make_credit(),
            adapters=_adapters(config, scenario),
            sampling=config.make_sampling(),
            thinking=config.thinking,
            limits=limits_of(config.limits),
            steps=config.steps,
            tasks_per_step=config.tasks_per_step,
            tasks=config.make_tasks(scenario.tasks),
            frozen=config.freeze,
            seed=config.seed,
            until=config.until,
            asynchronous=config.asynchronous,
            max_staleness=config.max_staleness,
            pipeline=config.make_pipeline(),
            refills=config.refills,
            folder=folder.path,
            checkpoint_steps=config.checkpoint_steps,
            keep=config.keep,
            keep_episodes=config.keep_episodes,
            resume=resume,
            trackers=trackers,
            stop=lambda: stop.asked,
            warn=output.warn,
            on_step=on_step,
        )
    except BaseException:
        await folder.rescue(model, output)
        raise
    finally:
        for each in trackers:
            each.close()
    await folder.save(model)
    return run


def _slow_from_scratch(algorithm: Algorithm) -> dict[str, str]:
    """What an algorithm has that holds back a model which knows nothing yet: setting and reason."""
    from rolecraft.training import FROM_SCRATCH

    found = {}
    if algorithm.kl is not None:
        found["kl"] = "the penalty for leaving the base keeps it at chance"
    if algorithm.compares_groups and algorithm.group < FROM_SCRATCH.group:
        found["group"] = f"groups of {algorithm.group} seldom differ where success is rare"
    return found


def _in_yaml(given: Any, differs: Iterable[str]) -> str:
    """The settings of an algorithm as given, with these as a model from scratch wants them."""
    from rolecraft.training import FROM_SCRATCH

    settings = {"name": given} if isinstance(given, str) else dict(given or {})
    settings |= {name: getattr(FROM_SCRATCH, name) for name in differs}
    parts = [
        f"{name}: {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in settings.items()
    ]
    return "{" + ", ".join(parts) + "}"


def _model(
    config: TrainConfig, scenario: Scenario, output: Output, *, checks: bool
) -> TransformersModel:
    """The model to start from, made here so that there is one to save however training ends."""
    from rolecraft.models.thinking import Thinking
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.training.rl.checks import check_base, policy

    adapters = _adapters(config, scenario)
    spec, files = find_model(config.model, output)
    if checks and (spec is None or files is not None):
        tell_memory(files, config, adapters, output)
    models = Models(spec)
    if not (models.everyone is None or isinstance(models.everyone, TransformersModel)):
        raise CommandLineError("`--model` must be a local one: transformers:PATH.")
    use_threads(config.threads)
    try:
        model = policy(scenario, models.everyone, config.seed)
        if config.adapters:
            check_base(model)
        if config.thinking:
            Thinking(model, config.thinking)  # whether the chat template has a switch
    except UsageError as error:
        raise CommandLineError(str(error)) from error
    if checks:
        asyncio.run(check_model(model, adapters, output))
    return model


def _adapters(config: TrainConfig, scenario: Scenario) -> AdapterSettings | None:
    """One for each role that is trained, unless the config names others."""
    from rolecraft.training.rl.settings import adapters_of

    roles = [role.name for role in scenario.team() if role.name not in config.freeze]
    return adapters_of(config.adapters, roles)


def _settings_before(config: TrainConfig, folder: Path) -> str | None:
    """The settings that the training in `folder` had, as written; None if it had none yet.

    Raises `CommandLineError` for another reward: its curve would be of two, and no checkpoint
    knows where a reward came from.
    """
    from rolecraft.training.rl.config import CONFIG, TrainConfig

    path = folder / CONFIG
    if not path.is_file():
        return None
    before = TrainConfig.read(path).reward
    if before != config.reward:
        raise CommandLineError(
            f"`{folder}` has another training than this: `reward` is {config.reward!r} and was "
            f"{before!r}. Go on with the same, or name another folder."
        )
    return path.read_text("utf-8")


def _check(scenario: Scenario, config: TrainConfig) -> None:
    """Raise `CommandLineError` for roles that are not there, or no model to start from."""
    names = [role.name for role in scenario.team()]
    for name in config.freeze:
        if name not in names:
            raise CommandLineError(f"`--freeze`: {UnknownName('Role', name, names)}")
    if set(names) <= set(config.freeze):
        raise CommandLineError("`--freeze` names every role: nothing is left to train.")
    for name in config.thinking:
        if name not in names or name in config.freeze:
            raise CommandLineError(
                f"`--thinking`: {UnknownName('Role', name, {*names} - {*config.freeze})}"
            )
    if config.model is None and scenario.untrained is None:
        raise CommandLineError(
            f"Scenario `{scenario.name}` brings no untrained model; say which one to start from: "
            f"--model transformers:PATH."
        )
