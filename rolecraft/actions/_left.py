"""What an action changed of the plain attributes of its role and of itself.

A later process that does not run a completed action again puts these back. Plain are values that
JSON has, and pydantic models, dataclasses, messages, lists, dicts and sets of them, whatever
changed inside; another object that was replaced is named as `lost`. What changes inside of other
objects is not seen.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from operator import is_, itemgetter
from typing import Any, NamedTuple

from rolecraft.errors import NotRestorable
from rolecraft.messages import Message
from rolecraft.trajectories.values import decode_value, encode_value

_OURS = frozenset(
    {"rc", "actions", "watch", "react_mode", "model", "limits", "_owner", "_solo", "_made", "tools"}
)


class Before(NamedTuple):
    """The attributes of an object at some moment."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    pick: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    """Gives the values of the names that are the user's."""
    inner: dict[str, Any] | None
    """Of what can change inside: how it looked, as JSON, or a copy where JSON cannot say it."""


def look(attributes: Mapping[str, Any]) -> Before:
    """Look at the attributes that are the user's; twice in every run of an action."""
    names = tuple(attributes)
    pick = _picked(names)
    values = pick(attributes)
    if _UNCHANGING.issuperset(map(type, values)):
        return Before(names, values, pick, None)
    inner = {
        name: _inside(value)
        for name, value in zip(_theirs(names), values, strict=True)
        if _can_change(type(value))
    }
    return Before(names, values, pick, inner or None)


def changes(attributes: Mapping[str, Any], before: Before) -> dict[str, Any]:
    """What differs now, as JSON: `set` the new values, `lost` the names of what JSON lacks."""
    names, values, pick, inner = before
    same = inner is None and names == tuple(attributes)
    if same and all(map(is_, values, pick(attributes))):
        return {}
    was = dict(zip(_theirs(names), values, strict=True))
    new: dict[str, Any] = {}
    lost: list[str] = []
    for name, value in attributes.items():
        if name in _OURS or _same(name, value, was, inner or {}):
            continue
        try:
            new[name] = encode_value(value)
        except NotRestorable:
            lost.append(name)
    gone = sorted(name for name in was if name not in attributes)
    found = {"set": new, "lost": sorted(lost), "gone": gone}
    return {name: value for name, value in found.items() if value}


def _same(name: str, value: Any, was: dict[str, Any], inner: dict[str, Any]) -> bool:
    if name not in was:
        return False
    if name in inner:
        return bool(_inside(value) == inner[name])
    then = was[name]
    return then is value or (type(then) is type(value) and bool(then == value))


def _inside(value: Any) -> Any:
    try:
        return encode_value(value)
    except NotRestorable:
        return copy.copy(value) if isinstance(value, (list, dict, set)) else value


_UNCHANGING: set[type] = {str, int, float, bool, type(None), bytes}
"""Types whose values stay what they are; filled as types are met."""
_CHANGING: set[type] = set()


def _can_change(kind: type) -> bool:
    if kind not in _UNCHANGING and kind not in _CHANGING:
        data = kind in (list, dict, set, tuple) or issubclass(kind, Message)
        data = data or hasattr(kind, "model_dump") or is_dataclass(kind)
        (_CHANGING if data else _UNCHANGING).add(kind)
    return kind in _CHANGING


@lru_cache(1024)
def _theirs(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in _OURS)


@lru_cache(1024)
def _picked(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    theirs = _theirs(names)
    if len(theirs) > 1:
        return itemgetter(*theirs)
    if not theirs:
        return lambda attributes: ()
    (name,) = theirs
    return lambda attributes: (attributes[name],)


def put_back(thing: object, changed: Mapping[str, Any]) -> None:
    for name, value in changed.get("set", {}).items():
        setattr(thing, name, decode_value(value))
    for name in changed.get("gone", ()):
        thing.__dict__.pop(name, None)
