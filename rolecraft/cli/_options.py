"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy import Detector

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
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Address of a server that speaks OpenAI's protocol, such as the one that `rolecraft "
        "serve` says; --model and --role-model are then openai/NAME, models of that server.",
    ),
]


def _load_modes(path: Path | None) -> Path | None:
    if path is not None and path.suffix == ".py":
        own_rules(path)
    elif path is not None:
        from rolecraft.errors import UsageError
        from rolecraft.failure_taxonomy import load_modes

        try:
            load_modes(path)
        except UsageError as error:
            raise CommandLineError(f"`--modes`: {error}") from error
    return path


def own_rules(path: Path | None) -> list[Detector]:
    """The detectors to look with: the `RULES` of a Python file of the user's, else the usual ones.

    Raises `CommandLineError` for a file without them; what it raises itself is told as it is.
    """
    from rolecraft.failure_taxonomy import DETECTORS

    if path is None or path.suffix != ".py":
        return list(DETECTORS)
    return list(_rules_in(path.resolve(), path))


@cache  # a file of the user's runs once, not for the check of the option and again for the command
def _rules_in(file: Path, path: Path) -> Sequence[Detector]:
    from rolecraft.cli._target import load_file
    from rolecraft.failure_taxonomy import Detector

    rules = getattr(load_file(str(file)), "RULES", None)
    if not isinstance(rules, (list, tuple)) or not all(isinstance(r, Detector) for r in rules):
        raise CommandLineError(
            f"`--modes {path}` has no `RULES`, a list of detectors: write `RULES = [*DETECTORS, "
            f"FindTooLong()]`. Modes without detectors of their own are a TOML file."
        )
    return rules


Modes = Annotated[
    Path | None,
    typer.Option(
        "--modes",
        metavar="FILE",
        callback=_load_modes,
        help="TOML file with failure modes of your own, beside the 14; or a Python file with their "
        "detectors, `RULES`, with which `annotate` looks.",
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
    Path, typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="Folder to write to.")
]
RunsAtOnce = Annotated[int, typer.Option("--concurrency", min=1, help="Runs at the same time.")]
RunsUsd = Annotated[
    float | None,
    typer.Option("--usd", min=0.0, help="Begin no further run when this is used up."),
]
RunsCalls = Annotated[int | None, typer.Option("--calls", min=0, help="The same in model calls.")]
