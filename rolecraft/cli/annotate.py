"""`rolecraft annotate`: say which failure modes occur in traces, where, and through whom."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import ExitCode
from rolecraft.cli._failures import coverage, failures_table
from rolecraft.cli._models import Models
from rolecraft.cli._options import Debug, Json
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
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Label the failures of runs: a trajectory, a log file of another tool, or a folder."""
    with Output(json=json) as output:
        models = Models(judge, option="--judge")
        reports, broken = asyncio.run(_annotate(paths, models, output))
        _summary(reports, broken, output)
        if broken:
            raise typer.Exit(ExitCode.INCOMPLETE if reports else ExitCode.ERROR)


async def _annotate(
    paths: list[Path], models: Models, output: Output
) -> tuple[list[Report], list[TraceError]]:
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy import annotate_many

    reports: list[Report] = []
    broken: list[TraceError] = []
    try:
        with output.counter("traces") as count:
            async for report in annotate_many(paths, judge=models.everyone):
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
    finally:
        await models.aclose()
    return reports, broken


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
    if broken:
        output.say(f"{len(broken)} could not be read (see above).", style="yellow")
