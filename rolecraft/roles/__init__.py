"""Who acts: roles, their memory, and how they choose what to do."""

from rolecraft.roles.context import RoleContext, RoleReactMode
from rolecraft.roles.memory import History, Memory
from rolecraft.roles.role import Role

__all__ = ["History", "Memory", "Role", "RoleContext", "RoleReactMode"]
