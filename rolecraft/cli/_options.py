"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rolecraft.cli._exits import CommandLineError

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
        from rolecraft.errors import UsageError
        from rolecraft.failure_taxonomy import load_modes

        try:
            load_modes(path)
        except UsageError as error:
            raise CommandLineError(f"`--modes`: {error}") from error
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


_LONGEST_ERROR = 300
"""Characters: a mapping that is something else altogether is not to be read in its error."""


def _load_mappings(paths: list[Path] | None) -> list[Path] | None:
    for path in paths or ():
        from rolecraft.errors import RolecraftError
        from rolecraft.failure_taxonomy.formats import load_mapping, register_format

        try:
            register_format(load_mapping(path))
        except RolecraftError as error:
            text = " ".join(str(error).split())
            cut = text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]} …"
            raise CommandLineError(f"`--mapping`: {cut}") from error
    return paths


Mapping = Annotated[
    list[Path] | None,
    typer.Option(
        "--mapping",
        metavar="FILE",
        callback=_load_mappings,
        help="YAML, TOML or JSON file that says which field of your traces means what. Can be "
        "given several times.",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", file_okay=False, help="Folder to write to.")
]
