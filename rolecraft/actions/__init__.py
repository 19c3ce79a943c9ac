"""What a role can do."""

from rolecraft.actions.action import Action, UserRequirement
from rolecraft.actions.tool import FunctionTool, ToolAction, tool

__all__ = ["Action", "FunctionTool", "ToolAction", "UserRequirement", "tool"]
