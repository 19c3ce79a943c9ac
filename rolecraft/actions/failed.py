"""How an action says that it did not succeed, without an exception."""

from __future__ import annotations

from rolecraft.messages import Message

FAILED = "failed"
"""The key in a message's `metadata` that says so."""


def failed(reason: str) -> Message:
    """What an action returns that could not do what it was to do, and says why.

    The run goes on: everybody hears the reason, and a plan is written anew. An exception ends it.
    """
    return Message(reason, metadata={FAILED: True})


def has_failed(message: Message) -> bool:
    return bool(message.metadata and message.metadata.get(FAILED))
