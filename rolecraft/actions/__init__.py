"""What a role can do."""

from rolecraft.actions.action import Action, Repeat, UserRequirement, idempotency_key
from rolecraft.actions.ask import Ask
from rolecraft.actions.finish import Finish
from rolecraft.actions.tool import FunctionTool, ToolAction, tool

__all__ = [
    "Action",
    "Ask",
    "Finish",
    "FunctionTool",
    "Repeat",
    "ToolAction",
    "UserRequirement",
    "idempotency_key",
    "tool",
]
