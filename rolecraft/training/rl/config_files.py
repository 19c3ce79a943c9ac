"""The files that a training's settings name, where it is gone on with from another folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LOCAL = "transformers:"


def seen_from_here(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The settings of a training that was started in `folder`, its files named from this folder.

    What is not there stays as it is named: the name of a scenario, a model of the hub, and what
    is found here because only the training was moved.
    """
    found = dict(settings)
    folder = Path(os.path.normpath(folder))
    if folder == Path.cwd():
        return found
    if ".py:" in str(found.get("scenario")):
        found["scenario"] = _named(found["scenario"], folder)
    for name in ("reward", "model"):
        if isinstance(found.get(name), str):
            found[name] = _named(found[name], folder)
    for part in ("subset", "stages"):
        if part in found:
            found[part] = _of_runs(found[part], folder)
    return found


def _named(name: str, folder: Path) -> str:
    """PATH, transformers:PATH or FILE.py:NAME, if that is in `folder`."""
    whole = name.removeprefix(_LOCAL)
    stem, colon, thing = whole.rpartition(".py:")
    file = f"{stem}.py" if colon else whole
    if Path(file).is_absolute() or not (folder / file).exists():
        return name
    kind = name[: len(name) - len(whole)]
    return f"{kind}{os.path.relpath(folder / file)}{f':{thing}' if colon else ''}"


def _of_runs(given: Any, folder: Path) -> Any:
    """A subset, or stages with one each: their `runs` are folders."""
    if isinstance(given, list):
        return [_of_runs(each, folder) for each in given]
    if not isinstance(given, Mapping):
        return given
    made = dict(given)
    if isinstance(made.get("subset"), Mapping):
        made["subset"] = _of_runs(made["subset"], folder)
    if isinstance(made.get("runs"), list):
        made["runs"] = [_named(str(each), folder) for each in made["runs"]]
    return made
