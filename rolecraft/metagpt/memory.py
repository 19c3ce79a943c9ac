"""`metagpt.memory`."""

from rolecraft.roles.memory import Memory

__all__ = ["Memory"]
