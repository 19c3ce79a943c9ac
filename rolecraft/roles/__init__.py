"""Who acts: roles, their memory, and how they choose what to do."""

from typing import TYPE_CHECKING, Any

from rolecraft.roles.context import RoleContext, RoleReactMode
from rolecraft.roles.long_term import LongTermMemory, Remembered
from rolecraft.roles.memory import History, Memory
from rolecraft.roles.role import Role
from rolecraft.roles.sqlite_memory import SqliteMemory
from rolecraft.roles.tool_calling import UseTools

if TYPE_CHECKING:
    from rolecraft.roles.human import Human
    from rolecraft.roles.planning import Plan, Planning
    from rolecraft.roles.recalling import recall

__all__ = [
    "History",
    "Human",
    "LongTermMemory",
    "Memory",
    "Plan",
    "Planning",
    "Remembered",
    "Role",
    "RoleContext",
    "RoleReactMode",
    "SqliteMemory",
    "UseTools",
    "recall",
]


# Modules that are imported when one of their names is first used: most programs need none of them.
_LAZY = {"Human": "human", "Plan": "planning", "Planning": "planning", "recall": "recalling"}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
