"""`metagpt.roles.role`."""

from rolecraft.roles import Role, RoleReactMode

__all__ = ["Role", "RoleReactMode"]
