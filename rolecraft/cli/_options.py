"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEBUG = "rolecraft.debug"
"""Key in the context's `meta`: show tracebacks of Rolecraft's own errors."""


def _remember(ctx: typer.Context, wanted: bool) -> bool:
    if wanted:
        ctx.meta[DEBUG] = True  # `meta` is one dictionary for a command and its group
    return wanted


Debug = Annotated[
    bool, typer.Option("--debug", callback=_remember, help="Show the traceback of an error.")
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Results as JSON lines on stdout; everything else goes to stderr."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Makes sampling repeatable.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Model of every role: provider/name, or transformers:PATH for a local one.",
    ),
]
RoleModel = Annotated[
    list[str] | None,
    typer.Option(
        "--role-model",
        metavar="ROLE=MODEL",
        help="Model of one role, instead of --model. Can be given several times.",
    ),
]


def _load_modes(path: Path | None) -> Path | None:
    if path is not None:
        from rolecraft.failure_taxonomy import load_modes

        load_modes(path)
    return path


Modes = Annotated[
    Path | None,
    typer.Option(
        "--modes",
        metavar="FILE",
        callback=_load_modes,
        help="TOML file with failure modes of your own, beside the 14.",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", file_okay=False, help="Folder to write to.")
]
