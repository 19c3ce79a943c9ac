"""The command line of `rolecraft sft` as settings of a fine-tuning, and their errors as its own."""

from __future__ import annotations

import contextlib
import json as jsonlib
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from rolecraft.cli._exits import CommandLineError
from rolecraft.errors import RolecraftError, UsageError
from rolecraft.training.sft.settings import SETTINGS, SFTSettings


def template_settings(pairs: list[str] | None) -> dict[str, Any] | None:
    """Values are JSON where they can be, else text."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise CommandLineError(f"`--template-setting {pair}` wants NAME=VALUE.")
        try:
            found[name] = jsonlib.loads(text)
        except ValueError:
            found[name] = text
    return found or None


def settings_of(given: dict[str, Any], out: Path, *, resume: bool) -> SFTSettings:
    """What was given on the command line, over what a run that goes on began with."""
    chosen = {name: value for name, value in given.items() if value is not None}
    chosen = {n: tuple(v) if isinstance(v, list) else v for n, v in chosen.items()}
    if "max_steps" in chosen and "epochs" in chosen:
        raise CommandLineError("`--steps` is instead of `--epochs`: give one of them.")
    if resume and (out / SETTINGS).exists():
        before = SFTSettings.load(out)
        known = {each.name: getattr(before, each.name) for each in fields(SFTSettings)}
        return SFTSettings(**{**known, **chosen, "output": out})
    for name in ("model", "data"):
        if name not in chosen and resume:
            raise CommandLineError(
                f"There is no run in `{out}` to go on with: it has no `{SETTINGS}`. Check `--out`, "
                f"or begin one with `--model` and `--data`."
            )
        if name not in chosen:
            raise CommandLineError(f"`--{name}` is missing: name {_WANTED[name]}.")
    return SFTSettings(**chosen, output=out)


_WANTED = {
    "model": "the folder of the base model",
    "data": "a file or folder to learn from",
}


@contextlib.contextmanager
def as_usage() -> Iterator[None]:
    """What is wrong with the settings is wrong on the command line."""
    try:
        yield
    except CommandLineError:
        raise
    except UsageError as error:
        raise CommandLineError(in_options(str(error))) from error


@contextlib.contextmanager
def names_options() -> Iterator[None]:
    """Errors in the block name options where they would name settings.

    Not those about rows of data, whose columns may have such names.
    """
    from rolecraft.training.sft.plan import BadData

    try:
        yield
    except RolecraftError as error:
        if error.args and isinstance(error.args[0], str) and not isinstance(error, BadData):
            error.args = (in_options(error.args[0]), *error.args[1:])
        raise


def in_options(text: str) -> str:
    """A text with each setting (`max_length`, `precision='fp32'`) as the option that one types."""
    text, known, choices = text.partition(" Known: ")
    return _SETTING.sub(_option_of, text) + known + choices


_SETTING = re.compile(
    "`({})(?:=('?)([^`']*)\\2)?`".format("|".join(each.name for each in fields(SFTSettings)))
)
_OTHERWISE = {
    "max_steps": "steps",
    "output": "out",
    "roles": "role",
    "targets": "target",
    "without_failures": "without-failure",
    "stop_reasons": "stop-reason",
    "template_settings": "template-setting",
}
"""Settings whose options have other names."""


def _option_of(setting: re.Match[str]) -> str:
    name, _, value = setting.groups()
    option = f"--{_OTHERWISE.get(name, name.replace('_', '-'))}"
    return f"`{option} {value}`" if value else f"`{option}`"
