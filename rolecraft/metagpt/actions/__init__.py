"""`metagpt.actions`."""

from rolecraft.actions import Action, UserRequirement

__all__ = ["Action", "UserRequirement"]
