"""`rolecraft new`: a project of the user's own that works at once."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
import sys
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output

_PLACEHOLDER = "PROJECT_NAME"
_SUFFIX = ".template"
"""Ends every template's name, so that no tool takes one for code of Rolecraft's."""


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or path of the new folder.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a project with roles, actions, an environment and tests. It runs without a key."""
    with Output(json=json, makes=True) as output:
        folder = make_project(Path(name))
        output.result({"project": str(folder), "files": [str(f) for f in _files(folder)]})
        output.say(f"Made `{folder}`. It works at once, offline and without a key:")
        output.say(f"  cd {folder}")
        output.say('  rolecraft run environments/newsroom.py:team --task "Rain in spring"')
        output.say("  rolecraft annotate runs")
        output.say(f"  {'' if _has_pytest() else 'pip install pytest && '}python -m pytest")
        output.say("With a real model: rolecraft run ... --model openai/gpt-4o-mini")


def _has_pytest() -> bool:
    return importlib.util.find_spec("pytest") is not None


def make_project(folder: Path) -> Path:
    """Write the project into `folder`, which must be empty or not exist yet; the folder.

    Raises `CommandLineError` for a name that is no distribution name, and for a folder in use.
    """
    name = folder.name
    if not re.fullmatch(r"[A-Za-z](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise CommandLineError(
            f"{name!r} cannot be the name of a project. Use letters, digits, `-`, `_` and `.`; "
            f"begin with a letter, end with a letter or digit."
        )
    if name.lower() == "rolecraft" or keyword.iskeyword(name) or name in sys.stdlib_module_names:
        raise CommandLineError(
            f"A project named {name!r} would get in the way of a package of that name. "
            f"Choose another."
        )
    if folder.exists() and not folder.is_dir():
        raise CommandLineError(f"`{folder}` is a file. Choose another name.")
    if folder.is_dir() and any(folder.iterdir()):
        raise CommandLineError(f"`{folder}` is not empty. Choose another name, or empty it first.")
    existed = folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _copy(resources.files("rolecraft.cli").joinpath("project-template"), folder, name)
    except OSError as error:
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)  # half a project is worse than none
        raise CommandLineError(
            f"`{folder}` cannot be written: {error.strerror or error}."
        ) from error
    return folder


def _copy(source: Traversable, target: Path, name: str) -> None:
    for item in source.iterdir():
        if item.is_dir():
            (target / item.name).mkdir()
            _copy(item, target / item.name, name)
        elif item.name.endswith(_SUFFIX):
            text = item.read_text("utf-8").replace(_PLACEHOLDER, name)
            (target / item.name.removesuffix(_SUFFIX)).write_text(text, encoding="utf-8")


def _files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
