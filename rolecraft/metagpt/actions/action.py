"""`metagpt.actions.action`."""

from rolecraft.actions import Action

__all__ = ["Action"]
