"""What an action changed of the plain attributes of its role and of itself.

A later process that does not run a completed action again puts these back. Plain are values that
JSON has, and pydantic models, messages, lists, dicts and sets of them; what else changed is named,
so that nobody misses it silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rolecraft.errors import NotRestorable
from rolecraft.trajectories.values import decode_value, encode_value

_CONTAINERS = (list, dict, set)
_OURS = frozenset(
    {"rc", "actions", "watch", "react_mode", "model", "limits", "_owner", "_solo", "_made", "tools"}
)


class Before(NamedTuple):
    """The attributes of an object at some moment; containers are copies."""

    attributes: dict[str, Any]
    containers: dict[str, Any]


def look(attributes: Mapping[str, Any]) -> Before:
    return Before(
        dict(attributes),
        {
            name: value.copy()
            for name, value in attributes.items()
            if type(value) in _CONTAINERS and name not in _OURS
        },
    )


def changes(attributes: Mapping[str, Any], before: Before) -> dict[str, Any]:
    """What differs now, as JSON: `set` the new values, `lost` the names of what JSON lacks."""
    was = before.attributes
    if len(was) == len(attributes) and not before.containers:
        for name, value in attributes.items():
            if was.get(name, before) is not value:
                break
        else:
            return {}
    new: dict[str, Any] = {}
    lost: list[str] = []
    for name, value in attributes.items():
        if name in _OURS:
            continue
        then = before.containers.get(name, was.get(name, before))
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
