"""A role as it was before its first run: for `reset()`, and for runs that follow a record.

Taken is what the role's own attributes held: plain values, lists, dicts and sets with all that is
in them, actions, and what it remembered already. Other objects (a client, a file) are shared.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rolecraft._declared import own
from rolecraft.messages import Message
from rolecraft.roles.context import RoleContext
from rolecraft.roles.cursor import Cursor

if TYPE_CHECKING:
    from rolecraft.actions import Action
    from rolecraft.roles.role import Role

_DERIVED = ("rc", "actions", "watch", "react_mode", "_solo")


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a role was before its first run."""

    kind: type[Role]
    attributes: dict[str, Any]
    actions: tuple[Action, ...]
    watch: frozenset[str]
    mode: tuple[Any, int | None]
    remembered: tuple[Message, ...]

    @classmethod
    def of(cls, role: Role) -> Beginning:
        rc = role.rc
        return cls(
            type(role),
            {name: own(value) for name, value in role.__dict__.items() if name not in _DERIVED},
            tuple(map(copy.copy, rc.cursor.actions)),
            rc.watch,
            (rc.react_mode, rc.max_react_loop),
            tuple(rc.memory.get()),
        )

    def restore(self, role: Role) -> None:
        """Make `role` what it was; its environment and where it records stay.

        In a record that goes on, its numbers go on too: no key or id is given twice.
        """
        was, rc = role.rc, RoleContext(Cursor(self.attributes["name"]))
        role.__dict__.clear()
        role.__dict__["rc"] = rc
        for name, value in self.attributes.items():
            role.__dict__[name] = own(value)
        role.set_actions([copy.copy(action) for action in self.actions])
        role._set_react_mode(*self.mode)
        rc.memory.add_batch(replace(message, event=None) for message in self.remembered)
        rc.env, rc.log, rc.first = was.env, was.log, self
        rc.watch = role.__dict__["watch"] = self.watch
        if was.env is not None:
            rc.said, rc.sessions, rc.runs = was.said, was.sessions, was.runs

    def role(self) -> Role:
        """A role of its own like it, in no environment."""
        made: Role = object.__new__(self.kind)
        made.__dict__["rc"] = RoleContext(Cursor(self.attributes["name"]))
        self.restore(made)
        return made
