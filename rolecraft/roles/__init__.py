"""Who acts: roles, their memory, and how they choose what to do."""

from rolecraft.roles.context import RoleContext, RoleReactMode
from rolecraft.roles.long_term import LongTermMemory, Remembered
from rolecraft.roles.memory import History, Memory
from rolecraft.roles.role import Role
from rolecraft.roles.sqlite_memory import SqliteMemory
from rolecraft.roles.tool_calling import UseTools

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
]
