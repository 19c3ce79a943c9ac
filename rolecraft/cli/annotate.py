"""`rolecraft annotate`: say which failure modes occur in traces, where, and through whom."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._failures import coverage, failures_table, left_open
from rolecraft.cli._models import Models
from rolecraft.cli._options import Debug, Json, Modes
from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy import Report


def annotate(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Journals, logs, or folders of them.")
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            metavar="MODEL",
            help="Model to ask about what the detectors leave open; without it, detectors only.",
        ),
    ] = None,
    usd: Annotated[
        float | None,
        typer.Option("--usd", min=0.0, help="Stop before the judge costs more US dollars."),
    ] = None,
    modes: Modes = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Label the failures of runs: a trajectory, a log file of another tool, or a folder."""
    with Output(json=json) as output:
        models = Models(judge, option="--judge")
        if usd is not None and judge is None:
            raise CommandLineError("`--usd` limits what a judge costs: name one with --judge.")
        models.check_keys()
        reports, broken, limit = asyncio.run(_annotate(paths, models, usd, output))
        _summary(reports, broken, output)
        if limit:
            output.warn(f"Limit reached, and the traces after that were not looked at: {limit}")
        if broken or limit:
            raise typer.Exit(ExitCode.INCOMPLETE if reports or limit else ExitCode.ERROR)


async def _annotate(
    paths: list[Path], models: Models, usd: float | None, output: Output
) -> tuple[list[Report], list[TraceError], str]:
    """The reports, the errors of files that cannot be read, and the limit that was reached."""
    from rolecraft.errors import LimitReached, TraceError
    from rolecraft.failure_taxonomy import Judge, annotate_many
    from rolecraft.models import Budget, Limits

    reports: list[Report] = []
    broken: list[TraceError] = []
    limit = ""
    judge = None
    if models.everyone is not None:
        budget = None if usd is None else Budget(Limits(usd=usd), name="the judge")
        judge = Judge(models.everyone, budget=budget)
    try:
        with output.counter("traces") as count:
            async for report in annotate_many(paths, judge=judge):
                count()
                if isinstance(report, TraceError):
                    broken.append(report)
                    output.warn(str(report))
                    continue
                reports.append(report)
                output.result(report.to_dict())
                if not output.json:
                    failures_table(report, output)
                for problem in report.problems:
                    output.warn(problem)
    except LimitReached as error:
        limit = str(error)
    finally:
        await models.aclose()
    return reports, broken, limit


def _summary(reports: list[Report], broken: list[TraceError], output: Output) -> None:
    from rolecraft.failure_taxonomy import MAST_V3, MODES
    from rolecraft.viewer.reading import count

    if reports:
        rows = []
        for mode in MODES.values():
            verdicts = {"present": 0, "absent": 0, "unknown": 0}
            for report in reports:
                said = {finding.verdict for finding in report.findings if finding.mode == mode.id}
                verdicts[next(v for v in verdicts if v in said)] += 1
            rows.append([MAST_V3.code(mode.id), mode.id, *verdicts.values()])
        head = ["code", "mode", "present", "absent", "not judged"]
        output.say()
        title = f"{count(len(reports), 'trace')}; codes of {MAST_V3.name}"
        output.table(title, head, rows, numeric=2)
        output.say(coverage(reports))
        for reason in left_open(reports):
            output.say(reason, style="dim")
    if broken:
        output.say(f"{len(broken)} could not be read (see above).", style="yellow")
