"""Arguments and options that several commands of `rolecraft synth` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="OUT", file_okay=False, help="The folder of `rolecraft synth plan --out`."
    ),
]
Environment = Annotated[
    Path | None,
    typer.Option(
        "--environment",
        metavar="VENV",
        help="A venv with pytest and what the project needs. Default: pip makes one in DIR.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, metavar="N", help="At the same time; else one a processor."),
]
WriterUsd = Annotated[
    float | None,
    typer.Option(
        "--usd",
        min=0.0,
        help="Stop before the model costs more US dollars than this; what calls before this one "
        "have cost in this folder counts.",
    ),
]
AtOnce = Annotated[
    int, typer.Option("--concurrency", min=1, help="Questions under way at the same time.")
]
