"""`rolecraft synth plan`: what a project is, how its tests run, and what they do unharmed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._options import Debug, Json, Out
from rolecraft.cli._output import Output
from rolecraft.cli._synth_options import Environment
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

if TYPE_CHECKING:
    from rolecraft.synthesis.planning.summary import Summary


def plan(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="The project: its folder, its source archive, or a wheel."
        ),
    ],
    out: Out,
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
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            help="Make it anew, of PATH as it is now. All that was made from the plan that is "
            "there is deleted: bugs, verdicts, texts, tasks, attempts.",
        ),
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Find a project's code and tests, build its environment, run the clean tests twice."""
    import asyncio

    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.planning.make import make_plan
    from rolecraft.synthesis.planning.settings import PlanSettings
    from rolecraft.synthesis.planning.summary import Summary
    from rolecraft.synthesis.planting import python_files

    with Output(json=json, makes=True) as output:
        settings = PlanSettings(
            tests=tests,
            also=tuple(also or ()),
            environment=environment,
            runner=runner,
            test_command=tuple(shlex.split(test_command or "")),
            report=report,
            pure=pure,
            most_failing=most_failing,
            test_seconds=test_seconds,
            suite_seconds=suite_seconds,
        )
        made = asyncio.run(
            make_plan(source, SynthesisFolder(out), settings=settings, new=new, tell=output.note)
        )
        _say(Summary.of(made), output)
        if python_files(made):
            output.then("rolecraft", "synth", "plant", out)
        else:
            output.then("rolecraft", "synth", "write", out, "--patches", "DIR")


def _say(summary: Summary, output: Output) -> None:
    output.result(summary.record())
    output.say(summary.title, style="bold")
    for name, value in summary.rows():
        output.say(f"  {name:<12}{value}")
    for warning in summary.warnings:
        output.warn(warning)
