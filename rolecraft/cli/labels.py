"""`rolecraft labels`: what labels there are, as a summary, as JSON lines or as one wide table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._options import Debug, Json, Mapping, Modes
from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy.labels import Labels


def labels(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Labels files, data sets, or folders of them."),
    ],
    wide: Annotated[
        Path | None,
        typer.Option(
            "--wide",
            metavar="FILE",
            dir_okay=False,
            help="Write a CSV table: a row a trace and annotator, a column a mode, 1, 0 or empty.",
        ),
    ] = None,
    mapping: Mapping = None,
    modes: Modes = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List labels of people, judges and rules, or write them as one table."""
    from rolecraft.failure_taxonomy.labels import read_labels
    from rolecraft.failure_taxonomy.table import write_table

    with Output(json=json, makes=wide is not None) as output:

        def warn(error: TraceError) -> None:
            passed_over(error, output)

        found = [
            row
            for path in paths
            for row in read_labels(path, on_error=warn, on_warning=output.warn)
        ]
        for row in found:
            output.result(row.to_dict())
        if not json:
            _summary(found, output)
        if wide is not None:
            try:
                write_table(found, wide)
            except OSError as error:
                reason = error.strerror or error
                raise CommandLineError(f"`{wide}` cannot be written: {reason}.") from error
            output.say(f"Wrote {len(found)} rows to `{wide}`.")


def passed_over(error: TraceError, output: Output) -> None:
    """Say that a file of a folder was left out, and why, in one line."""
    output.warn(f"Passed over: {error.short}")


def _summary(found: list[Labels], output: Output) -> None:
    from rolecraft.failure_taxonomy.modes import MODES

    by: dict[str, list[Labels]] = {}
    for row in found:
        by.setdefault(row.annotator or "unnamed", []).append(row)
    rows = []
    for mode in MODES:
        said = [[row.verdict(mode) for row in each] for each in by.values()]
        if any(map(any, said)):
            counts = [(each.count("present"), each.count("absent")) for each in said]
            rows.append([mode, *(f"{yes} of {yes + no}" for yes, no in counts)])
    blamed = [sum(row.decisive is not None for row in each) for each in by.values()]
    if any(blamed):
        rows.append(["decisive failure", *map(str, blamed)])
    title = f"{len({row.trace for row in found})} traces; present, of those that are decided"
    output.table(title, ["mode", *by], rows, numeric=1, whole=1)
