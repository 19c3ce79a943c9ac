"""`rolecraft show`: read a run in the terminal, as a diagram, or as a web page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._failures import coverage, failures_table
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy import Report
    from rolecraft.trajectories import Trajectory


def show(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A journal, or a log of another tool.")
    ],
    failures: Annotated[
        bool, typer.Option("--failures", help="Look for failures with the detectors and mark them.")
    ] = False,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="Print a Mermaid sequence diagram instead.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", dir_okay=False, help="Write a web page instead."),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what happened in a run."""
    from rolecraft.failure_taxonomy import annotate, read
    from rolecraft.viewer import trajectory_page, write_page

    with Output(json=json) as output:
        trajectory = read(path)
        report = asyncio.run(annotate(trajectory)) if failures else None
        output.result(_record(path, trajectory, report, html))
        if html is not None:
            page = trajectory_page(
                trajectory,
                report.findings if report is not None else None,
                judged=coverage([report]) if report is not None else "",
                made_by=f"rolecraft show {path}{' --failures' if failures else ''} --html {html}",
            )
            try:
                write_page(html, page)
            except OSError as error:
                raise typer.BadParameter(
                    f"`{html}` cannot be written: {error.strerror}."
                ) from error
            output.say(f"Wrote `{html}`.")
        elif diagram:
            output.say(trajectory.sequence_diagram())
        else:
            _read_aloud(trajectory, report, output)


def _record(
    path: Path, trajectory: Trajectory, report: Report | None, html: Path | None
) -> dict[str, Any]:
    from rolecraft.viewer.reading import task_of

    usage = trajectory.usage
    record: dict[str, Any] = {
        "trace": str(path),
        "trajectory": trajectory.id,
        "task": task_of(trajectory),
        "roles": trajectory.roles,
        "events": len(trajectory.events),
        "stop": trajectory.stop_reason,
        "usage": {
            "calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "usd": usage.usd,
        },
        "signals": {signal.name: signal.value for signal in trajectory.signals},
        "problems": trajectory.problems,
    }
    if report is not None:
        record["findings"] = report.to_dict()["findings"]
    if html is not None:
        record["html"] = str(html)
    return record


def _read_aloud(trajectory: Trajectory, report: Report | None, output: Output) -> None:
    from rolecraft.viewer.reading import (
        count,
        findings_by_event,
        money,
        steps,
        task_of,
        usage_by_role,
    )

    output.say(trajectory.id, style="bold")
    if task := task_of(trajectory):
        output.say(task)
    marked = findings_by_event(report.findings) if report is not None else {}
    time = None
    for step in steps(trajectory):
        if step.time != time and step.time > 0:
            output.say(f"\nround {step.time}", style="dim")
        time = step.time
        output.step(step, [finding.mode for finding in marked.get(step.seq, ())])
    output.say()
    usage = usage_by_role(trajectory)
    if usage:
        rows = [
            [role, its.calls, its.prompt_tokens, its.completion_tokens, money(its.usd)]
            for role, its in usage.items()
        ]
        head = ["role", "model calls", "tokens in", "tokens out", "price"]
        output.table("Usage", head, rows, numeric=1)
    output.say(
        f"Stopped: {trajectory.stop_reason or 'the record does not say'}; "
        f"{count(len(trajectory.events), 'event')}."
    )
    if report is not None:
        failures_table(report, output)
        output.say(coverage([report]))
    for problem in trajectory.problems:
        output.say(f"Could not be read: {problem}", style="yellow")
