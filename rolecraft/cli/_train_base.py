"""The model that a training starts from: a folder that is one, or one of the hub, fetched first."""

from __future__ import annotations

from pathlib import Path

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._hub import fetch_shown, hub_settings, no_more_downloads
from rolecraft.cli._output import Output
from rolecraft.errors import ModelError
from rolecraft.models.model_folder import check_model_folder

_LOCAL = "transformers:"


def model_spec(model: str | None) -> str | None:
    """A folder needs no `transformers:` before it: nothing else can be trained."""
    return f"{_LOCAL}{model}" if model and Path(model).is_dir() else model


def find_model(model: str | None, output: Output) -> tuple[str | None, Path | None]:
    """What `Models` takes, and where the files are, both None for the scenario's own.

    A model of the hub is fetched into the cache, with time-outs, from where it is then loaded by
    its name. Raises `CommandLineError` for a folder that is no model, and `HubError` for what
    cannot be had.
    """
    spec = model_spec(model)
    if spec is None or not spec.startswith(_LOCAL):
        return spec, None
    name = spec.removeprefix(_LOCAL)
    try:
        check_model_folder(name)
    except ModelError as error:
        raise CommandLineError(f"`--model`: {error}") from error
    if Path(name).is_dir():
        return spec, Path(name)
    folder = fetch_shown(name, "model", hub_settings(), output)
    no_more_downloads()
    return spec, folder
