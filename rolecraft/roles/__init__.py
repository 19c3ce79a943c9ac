"""Who acts: roles, their memory, and how they choose what to do."""

from typing import TYPE_CHECKING, Any

from rolecraft.roles.context import RoleContext, RoleReactMode
from rolecraft.roles.long_term import LongTermMemory, Remembered
from rolecraft.roles.memory import History, Memory
from rolecraft.roles.role import Role
from rolecraft.roles.sqlite_memory import SqliteMemory
from rolecraft.roles.tool_calling import UseTools

if TYPE_CHECKING:
    from rolecraft.roles.recalling import recall

__all__ = [
    "History",
    "LongTermMemory",
    "Memory",
    "Remembered",
    "Role",
    "RoleContext",
    "RoleReactMode",
    "SqliteMemory",
    "UseTools",
    "recall",
]


def __getattr__(name: str) -> Any:
    if name == "recall":  # making a tool takes milliseconds, and most programs need not recall
        from rolecraft.roles.recalling import recall

        return recall
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
