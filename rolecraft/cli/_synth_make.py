"""`rolecraft synth make`: all the steps from a project to its tasks, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rolecraft.cli._exits import ExitCode
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
from rolecraft.cli._synth_write import Patches, PatchIs, Polarity, write


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
    patches: Patches = None,
    polarity: Polarity = PatchIs.FIX,
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
    it was. With --patches their bugs come too; they are all where no code is Python.
    """
    short = False
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
        if patches is None or _has_python(out):
            plant(out, most=most, seed=seed, json=json, debug=debug)
        if patches is not None:
            short = _take(out, patches, polarity, json=json, debug=debug)
        validate(out, workers=workers, json=json, debug=debug)
        describe(out, json=json, debug=debug)
        gather(out, json=json, debug=debug)
    if short:
        raise typer.Exit(ExitCode.INCOMPLETE)


def _has_python(out: Path) -> bool:
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.plan import Plan
    from rolecraft.synthesis.planting import python_files

    return bool(python_files(Plan.load(SynthesisFolder(out))))


def _take(out: Path, patches: Path, polarity: PatchIs, *, json: bool, debug: bool) -> bool:
    """Add the bugs of patches; True if some gave none, which does not keep the others back."""
    try:
        write(out, patches=patches, polarity=polarity, json=json, debug=debug)
    except typer.Exit as ended:
        if ended.exit_code != ExitCode.INCOMPLETE:
            raise
        return True
    return False
