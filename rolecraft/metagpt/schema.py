"""`metagpt.schema`. The three kinds of message are `Message`s whose `role` is set already."""

from dataclasses import dataclass

from rolecraft.messages import Message


@dataclass(slots=True)
class UserMessage(Message):
    """What a person says."""


@dataclass(slots=True)
class SystemMessage(Message):
    """What a model is told before a conversation."""

    role: str = "system"


@dataclass(slots=True)
class AIMessage(Message):
    """What a model says."""

    role: str = "assistant"


__all__ = ["AIMessage", "Message", "SystemMessage", "UserMessage"]
