"""`rolecraft synth plan`: what a project is, how its tests run, and what they do unharmed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rolecraft.cli._options import Debug, Json, Out
from rolecraft.cli._output import Output
from rolecraft.cli._synth_options import Environment

if TYPE_CHECKING:
    from rolecraft.synthesis.planning.summary import Summary

Runner = Literal["pytest", "junit", "ctest"]


def plan(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="The project: its folder, its source archive, or a wheel."
        ),
    ],
    out: Out,
    tests: Annotated[
        Path | None,
        typer.Option(
            "--tests",
            metavar="DIR",
            help="Folder with the tests, if PATH has none (a wheel). It is copied into the source.",
        ),
    ] = None,
    environment: Environment = None,
    runner: Annotated[
        Runner | None,
        typer.Option(
            "--runner",
            help="What runs the tests. Default: pytest, or CTest where CMakeLists.txt has tests.",
        ),
    ] = None,
    test_command: Annotated[
        str | None,
        typer.Option(
            "--test-command",
            metavar="WORDS",
            help="For pytest: further arguments. Else the command that builds, tests and writes "
            "--report.",
        ),
    ] = None,
    report: Annotated[
        str, typer.Option("--report", metavar="FILE", help="The report that the command writes.")
    ] = "",
    pure: Annotated[
        bool,
        typer.Option("--pure", help="Go on though there are parts to compile: it works without."),
    ] = False,
    most_failing: Annotated[
        float,
        typer.Option(
            "--most-failing", min=0, max=1, metavar="SHARE", help="Share of tests that may fail."
        ),
    ] = 0.2,
    test_seconds: Annotated[
        float,
        typer.Option("--test-seconds", min=0.1, metavar="S", help="Seconds that one test has."),
    ] = 30.0,
    suite_seconds: Annotated[
        float,
        typer.Option("--suite-seconds", min=1, metavar="S", help="Seconds that all of them have."),
    ] = 900.0,
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

    with Output(json=json, makes=True) as output:
        settings = PlanSettings(
            tests=tests,
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
        _say(Summary.of(made), out, output)


def _say(summary: Summary, out: Path, output: Output) -> None:
    output.result(summary.record())
    output.say(summary.title, style="bold")
    for name, value in summary.rows():
        output.say(f"  {name:<12}{value}")
    for warning in summary.warnings:
        output.warn(warning)
    output.then("rolecraft", "synth", "plant", out)
