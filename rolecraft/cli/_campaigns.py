"""What commands that ask a model about many traces have in common: a file, and a last word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError

if TYPE_CHECKING:
    from rolecraft.cli._output import Output
    from rolecraft.failure_taxonomy.judging.campaign import Labelling

OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        dir_okay=False,
        help="File for the labels, one JSON line a trace. With a judge, answers are kept "
        "beside it: after a stop of any kind the same command goes on.",
    ),
]


def check_paths(paths: Sequence[Path]) -> None:
    """Raise `CommandLineError` for a path at which nothing is: it is mistyped."""
    missing = [f"`{path}`" for path in paths if not path.exists()]
    if missing:
        there = "is no such file or folder" if len(missing) == 1 else "are no such files or folders"
        raise CommandLineError(f"There {there}: {', '.join(missing)}.")


def check_out(out: Path | None, paths: Sequence[Path]) -> None:
    """Raise `CommandLineError` if the file of labels is one of the traces."""
    if out is not None and out.resolve() in {path.resolve() for path in paths}:
        raise CommandLineError(f"`--out {out}` is one of the traces: name another file.")


def told(campaign: Labelling[Any], done: int, output: Output) -> bool:
    """Say where the labels are, what they cost, and what is left to do; True if something is."""
    if campaign.asker is not None:
        output.say(f"Judge {campaign.asker.model.name}: {campaign.tally}")
    if campaign.kept_earlier:
        output.warn(f"`{campaign.out}` is left as it was: it has the labels of more traces.")
    elif campaign.out is not None:
        output.say(f"Labels of {done} {'trace' if done == 1 else 'traces'}: {campaign.out}")
    again = ""
    if campaign.asker is not None and campaign.asker.cache is not None:
        again = " The same command goes on, and pays for no answer twice."
    if campaign.stopped:
        left = f"{campaign.skipped} not looked at" if campaign.skipped else "none left out"
        output.warn(f"Stopped, with {left}: {campaign.stopped}{again}")
    if campaign.unanswered:
        listed = ", ".join(campaign.unanswered[:3]) + (", …" if campaign.unanswered[3:] else "")
        output.warn(
            f"Calls failed to the end about {len(campaign.unanswered)}, so what they would have "
            f"said is unknown there: {listed}.{again}"
        )
    return bool(campaign.stopped or campaign.unanswered or campaign.refused)
