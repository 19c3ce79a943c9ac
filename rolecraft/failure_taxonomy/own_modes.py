"""Failure modes of your own, beside the 14 of the study.

They follow the same evidence rules: a judge must quote a cited event of the blamed role, and so
must a detector; only a mode that is an `absence` may go without a quote. They have no code in any
code system, so nothing is renumbered, and reports, judge prompts and agreement have a row more.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.codes.crosswalk import SYSTEMS
from rolecraft.failure_taxonomy.codes.system import DROPPED, folded
from rolecraft.failure_taxonomy.modes import MODES, Category, Mode, Stage

_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_LIKE_A_CODE = re.compile(r"(fm|fc|mast|masft)[._]?\d.*")
_TEXTS = ("id", "name", "definition", "positive", "near_miss")


def register_mode(mode: Mode) -> Mode:
    """Make a further failure mode known; the mode.

    Raises `UsageError` if its id or name is taken, looks like a code, or a part is missing. To
    register the same mode once more changes nothing.
    """
    if MODES.get(mode.id) == mode:
        return mode
    if not _ID.fullmatch(mode.id) or _LIKE_A_CODE.fullmatch(mode.id):
        raise UsageError(
            f"{mode.id!r} cannot be the id of a failure mode: it looks like a code, or has other "
            "letters than a to z, digits, `_` and dots. Name what goes wrong, as in "
            "`headline.too_long`."
        )
    if mode.id in MODES or mode.id in DROPPED:
        raise UsageError(f"A failure mode `{mode.id}` is known already; take another id.")
    empty = [name for name in _TEXTS if not getattr(mode, name).strip()]
    if empty or not mode.stages:
        missing = ", ".join(f"`{name}`" for name in empty) or "`stages`"
        raise UsageError(f"Failure mode `{mode.id}` has no {missing}; a judge needs all of it.")
    taken = _meaning(mode.name)
    if taken:
        raise UsageError(
            f"The name {mode.name!r} of failure mode `{mode.id}` is one of `{taken}`; take another."
        )
    MODES[mode.id] = mode
    return mode


def load_modes(path: Path | str) -> list[Mode]:
    """Register the failure modes in a TOML file; the modes.

    Each is a table `[[mode]]` with the fields of `Mode`. `category` is `system_design`,
    `misalignment` or `verification`; `stages`, a list of `before`, `during` and `after`, may be
    left out. Raises `UsageError` with the file and what is wrong in it.
    """
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise UsageError(f"{str(path)!r} is no TOML file: {error}.") from None
    rows = table.pop("mode", None)
    if table or not isinstance(rows, list) or not rows:
        extra = f"It has {', '.join(map(repr, table))}." if table else "It has none."
        raise UsageError(f"{str(path)!r} must hold tables `[[mode]]` and nothing else. {extra}")
    try:
        modes = [_mode(row) for row in rows]
        for mode in modes:
            for other in mode.confused_with:
                if other not in MODES and other not in {each.id for each in modes}:
                    raise UsageError(
                        f"Failure mode `{mode.id}` is confused with {other!r}, which is none."
                    )
        return [register_mode(mode) for mode in modes]
    except UsageError as error:
        raise UsageError(f"{str(path)!r}: {error}") from error


def _mode(row: Any) -> Mode:
    known = {field.name: field for field in fields(Mode)}
    if not isinstance(row, Mapping):
        raise UsageError(f"`mode` must be a table `[[mode]]`, not {row!r}.")
    name = str(row.get("id", ""))
    if extra := row.keys() - known.keys():
        raise UsageError(f"Failure mode `{name}` has unknown fields: {', '.join(sorted(extra))}.")
    values = {"stages": ["before", "during", "after"], **row}
    needed = {key for key, field in known.items() if field.default is MISSING}
    if lacking := sorted(needed - values.keys()):
        raise UsageError(f"Failure mode `{name}` lacks {', '.join(f'`{key}`' for key in lacking)}.")
    for key in _TEXTS:
        if not isinstance(values[key], str):
            raise UsageError(f"`{key}` of failure mode `{name}` is a text, not {values[key]!r}.")
    values["category"] = _choice(Category, values["category"], "category", name)
    values["stages"] = tuple(
        _choice(Stage, stage, "stages", name) for stage in _list(values["stages"], "stages", name)
    )
    confused = _list(values.get("confused_with", []), "confused_with", name)
    values["confused_with"] = tuple(map(str, confused))
    if not isinstance(values.get("absence", False), bool):
        raise UsageError(f"`absence` of failure mode `{name}` is true or false.")
    return Mode(**values)


def _choice(kind: Any, given: Any, key: str, mode: str) -> Any:
    for choice in kind:
        if given in (choice.name.lower(), choice.value):
            return choice
    listed = ", ".join(f"{choice.name.lower()!r}" for choice in kind)
    raise UsageError(f"`{key}` of failure mode `{mode}` is one of {listed}, not {given!r}.")


def _list(given: Any, key: str, mode: str) -> list[Any]:
    if not isinstance(given, list):
        raise UsageError(f"`{key}` of failure mode `{mode}` is a list, not {given!r}.")
    return given


def _meaning(name: str) -> str:
    """The concept that a name stands for already; empty if it is free."""
    key = folded(name)
    own = {folded(mode.name): mode.id for mode in MODES.values()}
    shared = (system.names.get(key) for system in SYSTEMS.values())
    return own.get(key) or next((concept for concept in shared if concept), "")
