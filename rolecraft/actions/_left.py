"""What an action changed of the plain attributes of its role and of itself.

A later process that does not run a completed action again puts these back. Plain are values that
JSON has, and pydantic models, messages, lists, dicts and sets of them; what else changed is named,
so that nobody misses it silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Any, NamedTuple

from rolecraft.errors import NotRestorable
from rolecraft.trajectories.values import decode_value, encode_value

_CONTAINERS = frozenset({list, dict, set})
_OURS = frozenset(
    {"rc", "actions", "watch", "react_mode", "model", "limits", "_owner", "_solo", "_made", "tools"}
)


class Before(NamedTuple):
    """The attributes of an object at some moment; of containers there are copies."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    containers: dict[str, Any] | None


def look(attributes: Mapping[str, Any]) -> Before:
    names, values = tuple(attributes), tuple(attributes.values())
    if _CONTAINERS.isdisjoint(map(type, values)):  # twice in every run of an action
        return Before(names, values, None)
    containers = {
        name: value.copy()
        for name, value in attributes.items()
        if type(value) in _CONTAINERS and name not in _OURS
    }
    return Before(names, values, containers or None)


def changes(attributes: Mapping[str, Any], before: Before) -> dict[str, Any]:
    """What differs now, as JSON: `set` the new values, `lost` the names of what JSON lacks."""
    names, values, containers = before
    same = names == tuple(attributes) and all(map(is_, values, attributes.values()))
    if same and containers is None:
        return {}
    was = {**dict(zip(names, values, strict=True)), **(containers or {})}
    new: dict[str, Any] = {}
    lost: list[str] = []
    for name, value in attributes.items():
        if name in _OURS:
            continue
        then = was.get(name, before)
        if then is value or (type(then) is type(value) and then == value):
            continue
        try:
            new[name] = encode_value(value)
        except NotRestorable:
            lost.append(name)
    gone = sorted(name for name in was if name not in attributes and name not in _OURS)
    found = {"set": new, "lost": sorted(lost), "gone": gone}
    return {name: value for name, value in found.items() if value}


def put_back(thing: object, changed: Mapping[str, Any]) -> None:
    for name, value in changed.get("set", {}).items():
        setattr(thing, name, decode_value(value))
    for name in changed.get("gone", ()):
        thing.__dict__.pop(name, None)
