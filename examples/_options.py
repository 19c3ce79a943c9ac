"""What every example takes from the command line, and what it prints.

`main` runs a team, `play` plays one task of a scenario. Without `--model` a stand-in answers, so
that an example needs no key and no network.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping

from rolecraft import Model, Run, Scenario, Team, Trajectory
from rolecraft.models import resolve_model


def main(team: Callable[..., Team], *, task: str) -> Run:
    """Run `team()`, or `team(model)` with `--model`, on `--task` (else `task`); what happened."""
    parser = _parser()
    parser.add_argument("--task", default=task, metavar="TEXT", help=f"what to do ({task!r})")
    options = parser.parse_args()

    async def work() -> Run:
        model = _model(options)
        try:
            return await (team() if model is None else team(model)).run(options.task)
        finally:
            if model is not None:
                await model.aclose()

    run = asyncio.run(work())
    _report(run.trajectory, options)
    return run


def play(scenario: Scenario | Mapping[str, Scenario], *, stand_in: Model) -> Trajectory:
    """Play the task that `--seed` draws, with `--model` or the stand-in; what happened.

    Of several scenarios `--form` names the one, the first unless given.
    """
    parser = _parser()
    parser.add_argument("--seed", type=int, default=0, help="which task to draw (0)")
    if not isinstance(scenario, Scenario):
        first, *_ = scenario
        parser.add_argument("--form", choices=list(scenario), default=first, help=f"({first})")
    options = parser.parse_args()
    if not isinstance(scenario, Scenario):
        scenario = scenario[options.form]

    async def work() -> Trajectory:
        model = _model(options) or stand_in
        task = scenario.tasks.sample(1, seed=options.seed, split="test")[0]
        try:
            return (await scenario.play(task, model=model)).trajectory
        finally:
            await model.aclose()

    trajectory = asyncio.run(work())
    _report(trajectory, options)
    return trajectory


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--model", help="a real model, such as openai/gpt-4o-mini")
    parser.add_argument("--save", metavar="DIR", help="keep the journal in this folder")
    return parser


def _model(options: argparse.Namespace) -> Model | None:
    return resolve_model(options.model) if options.model is not None else None


def _report(trajectory: Trajectory, options: argparse.Namespace) -> None:
    for event in trajectory.of("message"):
        print(f"{event.role}: {event.content}")
    print()
    for signal in trajectory.signals:
        print(f"{signal.name} = {signal.value:g}")
    answered = "" if options.model else "; answered by a stand-in, no language model"
    print(f"Stopped: {trajectory.stop_reason}; {trajectory.usage.calls} model calls{answered}.")
    if options.save is not None:
        print(f"Recorded in {trajectory.save(options.save)}")
