"""`finish`: how a model says that it is done."""

from __future__ import annotations

from rolecraft.actions.tool import tool


@tool(name="finish", ends=True)
async def finish(message: str) -> str:
    """Say that the task is done, or that it cannot be done. Nothing can be done after that.

    Before you call this, run what shows that the task is done.

    Args:
        message: what you did and how you checked it; what is left open, if anything is.
    """
    return message
