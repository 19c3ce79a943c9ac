"""`metagpt.roles`."""

from rolecraft.roles import Role, RoleReactMode

__all__ = ["Role", "RoleReactMode"]
