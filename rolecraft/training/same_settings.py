"""Whether a training goes on under the settings that it began with, compared field by field.

Invariant: a setting that the stored record does not have counts as its default, so that a version
with one more setting goes on with what an earlier one began; everything else has to be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple

KIND = "is"
"""In the record of a dataclass, the name of its class; no field can have that name."""


class Difference(NamedTuple):
    """A setting that is another now: its name, and both values in words."""

    name: str
    was: str
    now: str


def plain(settings: Any) -> Any:
    """Settings as what JSON can hold: of a dataclass its fields, but for those kept out of its
    `repr`; of a function its name."""
    if is_dataclass(settings) and not isinstance(settings, type):
        kept = {each.name: plain(getattr(settings, each.name)) for each in _compared(settings)}
        return {KIND: type(settings).__name__, **kept}
    if isinstance(settings, Mapping):
        return {str(name): plain(value) for name, value in settings.items()}
    if isinstance(settings, Enum):
        return settings.name
    if isinstance(settings, set | frozenset):
        return sorted(map(plain, settings))
    if isinstance(settings, Sequence) and not isinstance(settings, str | bytes):
        return [plain(each) for each in settings]
    if settings is None or isinstance(settings, bool | int | float | str):
        return settings
    if callable(settings) and hasattr(settings, "__qualname__"):
        return f"{settings.__module__}.{settings.__qualname__}"  # its `repr` is new in each process
    return str(settings)


def difference(before: Any, now: Any, name: str) -> Difference | None:
    """The first setting in which `now` is not what `plain` gave `before`; None if there is none."""
    if isinstance(before, str) and not isinstance(now, str):
        # Earlier versions wrote `repr`, where what is missing cannot be told from what was changed.
        if before == repr(now):
            return None
        return Difference(name, f"{before}, as an earlier version of Rolecraft wrote it", repr(now))
    return _within(before, now, name)


def _within(before: Any, now: Any, name: str) -> Difference | None:
    kind = type(now).__name__
    if is_dataclass(now) and isinstance(before, Mapping) and before.get(KIND) == kind:
        known = _compared(now)
        for each in known:
            inside = f"{name}.{each.name}"
            was = before[each.name] if each.name in before else _default(each)
            if found := _within(was, getattr(now, each.name), inside):
                return found
        for gone in before.keys() - {KIND, *(each.name for each in known)}:
            return Difference(f"{name}.{gone}", words(before[gone]), "no setting of this version")
        return None
    if before == plain(now):
        return None
    return Difference(name, words(before), words(plain(now)))


def words(value: Any) -> str:
    """What `plain` gave, as one would write it."""
    if isinstance(value, Mapping) and KIND in value:
        given = [f"{name}={words(each)}" for name, each in value.items() if name != KIND]
        return f"{value[KIND]}({', '.join(given)})"
    return "not set" if value is MISSING else repr(value)


def _compared(settings: Any) -> list[Field[Any]]:
    return [each for each in fields(settings) if each.repr]


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return plain(field.default_factory())
    return MISSING if field.default is MISSING else plain(field.default)
