"""`metagpt.schema`."""

from rolecraft.messages import Message

__all__ = ["Message"]
