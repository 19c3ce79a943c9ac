"""What roles watch, looked at when a run begins.

A watched string is an address, and any string may be one: messages from outside say `cause_by` as
they like. So an unknown one is no error; but `watch=["Say"]`, a bare class name, and a misspelt
path are never heard of again, and nothing would say why the role stays silent.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from functools import reduce
from typing import Any

from rolecraft.messages import FINISH, USER_REQUIREMENT
from rolecraft.roles.role import Role


def warn_of_near_misses(roles: Iterable[Role]) -> None:
    """Warn of watched strings that are no action's address and look like one that is."""
    roles = list(roles)
    addresses = {USER_REQUIREMENT, FINISH}
    for role in roles:
        addresses.update(action.address for action in (*role.rc.cursor.actions, *role.tools))
    by_name = {_last(address): address for address in sorted(addresses)}
    for role in roles:
        for watched in sorted(role.rc.watch - addresses):
            import difflib  # few runs get here

            name = _last(watched)
            near = [known for known in by_name if sorted(known) == sorted(name)]
            near += difflib.get_close_matches(name, by_name, n=1, cutoff=0.8)
            if near and not _is_defined(watched):
                warnings.warn(
                    f"Role {role.name!r} watches {watched!r}, and no role has such an action. If "
                    f"you mean `{near[0]}`, watch the class, `watch=[{near[0]}]`, or its address, "
                    f"{by_name[near[0]]!r}.",
                    stacklevel=2,
                )


def _last(address: str) -> str:
    return address.rpartition(".")[2]


def _is_defined(address: str) -> bool:
    """Whether the address is that of a class, which somebody may still come to use."""
    if "<locals>" in address:
        return True
    parts = address.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module: Any = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            named = reduce(lambda thing, name: getattr(thing, name, None), parts[cut:], module)
            return named is not None
    return False
