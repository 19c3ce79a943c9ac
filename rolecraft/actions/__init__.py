"""What a role can do."""

from rolecraft.actions import _whereabouts as _whereabouts  # log messages say the action
from rolecraft.actions.action import Action, Repeat, UserRequirement, idempotency_key
from rolecraft.actions.ask import Ask
from rolecraft.actions.failed import failed
from rolecraft.actions.finish import Finish
from rolecraft.actions.tool import FunctionTool, ToolAction, ToolResult, tool

__all__ = [
    "Action",
    "Ask",
    "Finish",
    "FunctionTool",
    "Repeat",
    "ToolAction",
    "ToolResult",
    "UserRequirement",
    "failed",
    "idempotency_key",
    "tool",
]
