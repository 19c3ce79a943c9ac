"""What a role can do."""

from rolecraft.actions.action import Action, UserRequirement

__all__ = ["Action", "UserRequirement"]
