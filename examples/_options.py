"""What every example takes from the command line, and what it prints.

`main` runs a team, `play` plays one task of a scenario. Without `--model` a stand-in answers, so
that an example needs no key and no network.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rolecraft import Model, RolecraftError, Run, Scenario, Task, Team, Trajectory
from rolecraft.models import resolve_model
from rolecraft.trajectories import Event

T = TypeVar("T")
WIDTH, TASK_WIDTH = 100, 400
"""Messages are shown by their beginnings, the last one whole."""


def parser() -> argparse.ArgumentParser:
    """A parser with the options that all examples have."""
    made = argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--model", help="a real model, such as openai/gpt-4o-mini")
    made.add_argument("--save", type=Path, metavar="DIR", help="keep the journal in this folder")
    return made


def parse(arguments: argparse.ArgumentParser) -> argparse.Namespace:
    """The options. A task of one's own needs a model: a stand-in would play on as before."""
    options = arguments.parse_args()
    if getattr(options, "task", None) is not None and options.model is None:
        arguments.error("the stand-in knows its own task only: `--task` goes with `--model`")
    return options


def main(team: Callable[..., Team], *, task: str) -> Run:
    """Run `team()`, or `team(model)` with `--model`, on `--task` (else `task`); what happened."""
    arguments = parser()
    arguments.add_argument("--task", metavar="TEXT", help=f"what to do, for a model ({task})")
    options = parse(arguments)
    return run_team(team, options.task or task, options)


def run_team(team: Callable[..., Team], task: str, options: argparse.Namespace) -> Run:
    """Run `team()`, or `team(model)` with `--model`, on `task`; report; what happened."""

    async def work() -> Run:
        model = _model(options)
        try:
            return await (team() if model is None else team(model)).run(task)
        finally:
            if model is not None:
                await model.aclose()

    run = finish(work())
    report(run.trajectory, options)
    save(run.trajectory, options)
    return run


def play(
    scenarios: Scenario | Mapping[str, Scenario], *, stand_in: Model | Callable[[Task], Model]
) -> Trajectory:
    """Play the task that `--seed` draws, with `--model` or a stand-in for it; what happened.

    Of several scenarios by name, `--form` chooses one, the first unless given.
    """
    forms = scenarios if isinstance(scenarios, Mapping) else {"": scenarios}
    first = next(iter(forms))
    arguments = parser()
    arguments.add_argument("--seed", type=int, default=0, help="which task to draw (0)")
    arguments.set_defaults(form=first)
    if len(forms) > 1:
        arguments.add_argument("--form", choices=forms, help=f"which scenario ({first})")
    options = parse(arguments)
    scenario = forms[options.form]

    async def work() -> Trajectory:
        task = scenario.tasks.sample(1, seed=options.seed, split="test")[0]
        default = stand_in if isinstance(stand_in, Model) else stand_in(task)
        model = _model(options) or default
        try:
            return (await scenario.play(task, model=model)).trajectory
        finally:
            await model.aclose()

    trajectory = finish(work())
    report(trajectory, options, reward=scenario.reward(trajectory).value)
    save(trajectory, options)
    return trajectory


def report(
    trajectory: Trajectory, options: argparse.Namespace, *, reward: float | None = None
) -> None:
    """Print who said what, what was measured, and why it ended."""
    said = [event for event in trajectory.of("message") if event.to != ("<none>",)]
    for event in said:
        line = f"{event.role}: {' '.join(event.content.split())}"
        width = TASK_WIDTH if event.role == "user" else WIDTH
        shown = line if len(line) <= width else f"{line[: width - 1]}…"
        print(f"{shown}{_notes(event)}")
    print(f"\n{said[-1].content.rstrip()}\n")
    for signal in trajectory.signals:
        of = f" of {signal.role}" if signal.role else ""
        print(f"{signal.name}{of} = {signal.value:g}")
    if reward is not None:
        print(f"reward = {reward:g}")
    answered = "" if options.model else "; answered by a stand-in, no language model"
    print(f"Stopped: {trajectory.stop_reason}; {trajectory.usage.calls} model calls{answered}.")


def save(trajectory: Trajectory, options: argparse.Namespace) -> None:
    """Keep the journal, if that was asked for."""
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
        print(f"Recorded in {trajectory.save(options.save)}")


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Do it; what goes wrong is one line that says what to do about it."""
    try:
        return asyncio.run(work)
    except RolecraftError as error:
        sys.exit(f"error: {error}")


def _notes(event: Event) -> str:
    """What a message says about itself besides its text: votes, checks, how sure somebody is."""
    notes = ", ".join(_flat(event.data.get("metadata") or {}))
    return f"  [{notes}]" if notes else ""


def _flat(metadata: Mapping[str, Any]) -> Iterator[str]:
    for name, value in metadata.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        elif not isinstance(value, str):
            yield f"{name}: {value}"


def _model(options: argparse.Namespace) -> Model | None:
    return resolve_model(options.model) if options.model is not None else None
