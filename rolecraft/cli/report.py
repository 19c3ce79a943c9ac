"""`rolecraft report`: failures over many traces, as tables and as a web page with plots."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._failures import say_remedies
from rolecraft.cli._judges import Format
from rolecraft.cli._options import Debug, Json, Mapping, Modes
from rolecraft.cli._output import Output
from rolecraft.cli.labels import passed_over
from rolecraft.errors import UnknownName

if TYPE_CHECKING:
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy.distribution import Distribution

Annotator = Annotated[
    str | None,
    typer.Option(
        "--annotator", metavar="NAME", help="Of several annotators, take the labels of NAME."
    ),
]


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Labels files, journals, logs, or folders of them. Traces without labels are "
            "looked at by the detectors.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write a web page too."),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="Group by system, model, scenario, format, folder or annotator.",
        ),
    ] = "system",
    annotator: Annotator = None,
    format: Format = None,  # noqa: A002
    mapping: Mapping = None,
    modes: Modes = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say how often each failure mode occurs in many traces, where, and what to do about it."""
    from rolecraft.failure_taxonomy.distribution import distribution
    from rolecraft.failure_taxonomy.distribution_input import GROUPINGS, labelled_traces

    with Output(json=json, makes=out is not None) as output:
        if by not in GROUPINGS:
            raise UnknownName("Grouping", by, GROUPINGS)
        broken: list[TraceError] = []

        def warn(error: TraceError) -> None:
            broken.append(error)
            passed_over(error, output)

        traces = asyncio.run(
            labelled_traces(paths, annotator=annotator, on_error=warn, format=format)
        )
        found = distribution(traces, by=by)
        output.result(found.to_dict())
        if not json:
            _show(found, output)
        if out is not None:
            from rolecraft.viewer.failures import failures_page
            from rolecraft.viewer.page import write_page

            names = ", ".join(str(error.path) for error in broken)
            notes = [f"Not in here, as they could not be read: {names}."] if broken else []
            try:
                write_page(out, failures_page(found, notes=notes))
            except OSError as error:
                raise CommandLineError(f"`{out}` cannot be written: {error.strerror}.") from error
            output.say(f"Wrote `{out}`.")
        if broken:
            raise typer.Exit(ExitCode.INCOMPLETE)


def _show(found: Distribution, output: Output) -> None:
    from rolecraft.failure_taxonomy.codes import MAST_V3
    from rolecraft.viewer.failures import ADDED, judged_sentence
    from rolecraft.viewer.failures_charts import share_of
    from rolecraft.viewer.reading import percent

    output.say(judged_sentence(found))
    rows = [
        [
            MAST_V3.code(mode),
            mode,
            share_of(count) or "not judged",
            "" if count.rate is None or count.one_sided else percent(count.rate),
            percent(count.found) if count.judged else "",
            percent(count.unknown_share),
        ]
        for mode, count in found.whole.modes.items()
    ]
    title = f"Modes; codes of {MAST_V3.name}"
    output.table(
        title, ["code", "mode", "present", "rate", "found", "unknown"], rows, numeric=3, whole=2
    )
    if any(count.added for count in found.whole.modes.values()):
        output.say(ADDED, style="dim")
    one_sided = [mode for mode, count in found.whole.modes.items() if count.one_sided]
    if one_sided:
        output.say(
            f"Found but never denied, so without a rate: {', '.join(one_sided)}. Found: of all "
            "traces, decided or not.",
            style="dim",
        )
    if len(found.groups) > 1:
        rows = [
            [
                group.name,
                str(group.traces),
                *(str(n) for n in group.categories.values()),
                percent(group.unknown_share),
            ]
            for group in found.groups
        ]
        head = [found.by, "traces", *map(str, found.whole.categories), "unknown"]
        output.table(f"Failures by {found.by}", head, rows, numeric=len(head) - 1)
    say_remedies({m: c.present for m, c in found.whole.modes.items() if c.present}, output)
