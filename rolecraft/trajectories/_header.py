"""What a header says of the roles, whatever stands there: logs of other tools say all sorts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def declared_actions(about: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The names of the roles in `about["roles"]`, each with the names of its actions, in order.

    Takes a list of names, a list of objects with `name` and perhaps `actions`, or a mapping from
    names; anything else declares nobody.
    """
    roles = about.get("roles")
    found: dict[str, tuple[str, ...]] = {}
    for role in roles if isinstance(roles, (list, tuple, Mapping)) else ():
        name = role.get("name") if isinstance(role, Mapping) else role
        if isinstance(name, str):
            actions = role.get("actions") if isinstance(role, Mapping) else None
            found.setdefault(name, action_names(actions))
    return found


def action_names(actions: Any) -> tuple[str, ...]:
    """What should be a list of names; empty if it is something else."""
    return tuple(map(str, actions)) if isinstance(actions, (list, tuple)) else ()
