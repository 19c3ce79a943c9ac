"""`metagpt.actions.add_requirement`."""

from rolecraft.actions import UserRequirement

__all__ = ["UserRequirement"]
