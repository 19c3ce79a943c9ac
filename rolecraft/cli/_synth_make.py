"""`rolecraft synth make`: all the steps from a project to its tasks, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rolecraft.cli._options import Debug, Json, Out, Seed
from rolecraft.cli._output import all_steps
from rolecraft.cli._synth_describe import describe
from rolecraft.cli._synth_gather import gather
from rolecraft.cli._synth_options import Environment, Workers
from rolecraft.cli._synth_plan import plan
from rolecraft.cli._synth_plan_options import (
    Also,
    MostFailing,
    Pure,
    Report,
    Runner,
    SuiteSeconds,
    TestCommand,
    Tests,
    TestSeconds,
)
from rolecraft.cli._synth_plant import plant
from rolecraft.cli._synth_validate import validate


def make(
    source: Annotated[
        Path, typer.Argument(metavar="PATH", help="The project: its folder or source archive.")
    ],
    out: Out,
    most: Annotated[
        int,
        typer.Option(
            "--most", min=1, metavar="N", help="So many candidates; some three of four are tasks."
        ),
    ] = 400,
    tests: Tests = None,
    also: Also = None,
    environment: Environment = None,
    runner: Runner = None,
    test_command: TestCommand = None,
    report: Report = "",
    pure: Pure = False,
    most_failing: MostFailing = 0.2,
    test_seconds: TestSeconds = 30.0,
    suite_seconds: SuiteSeconds = 900.0,
    workers: Workers = None,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """From a project to tasks in one go: plan, plant, validate, describe, gather.

    The first has its options here, the others have their defaults. Called again, it goes on where
    it was.
    """
    with all_steps():
        plan(
            source,
            out,
            tests=tests,
            also=also,
            environment=environment,
            runner=runner,
            test_command=test_command,
            report=report,
            pure=pure,
            most_failing=most_failing,
            test_seconds=test_seconds,
            suite_seconds=suite_seconds,
            json=json,
            debug=debug,
        )
        plant(out, most=most, seed=seed, json=json, debug=debug)
        validate(out, workers=workers, json=json, debug=debug)
        describe(out, json=json, debug=debug)
        gather(out, json=json, debug=debug)
