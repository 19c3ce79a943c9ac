"""From what an action returns to a message."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rolecraft.errors import UsageError, forgotten_await
from rolecraft.messages import MESSAGE_TO_ALL, Message

if TYPE_CHECKING:
    from rolecraft.actions import Action
    from rolecraft.roles.role import Role


def as_reply(result: Any, action: Action | None, role: Role) -> Message | None:
    """A message that says `result`; None for None. Raises `UsageError` for what cannot be said."""
    if result is None:
        return None
    if isinstance(result, Message):
        if result.event is None:
            return result
        # One that was recorded before (the action passes on what it got) becomes a new message.
        return replace(result, id="", event=None, cause_by="", sent_from="", send_to=MESSAGE_TO_ALL)
    cause = action.address if action is not None else ""
    if isinstance(result, str):
        return Message(result, role=role.name, cause_by=cause)
    if hasattr(result, "model_dump_json"):
        try:
            content = result.model_dump_json()
        except ValueError:  # it holds what JSON cannot, such as bytes
            content = repr(result)
        return Message(content, role=role.name, cause_by=cause, instruct_content=result)
    if isinstance(result, (dict, list, tuple, int, float)):
        try:
            return Message(json.dumps(result, ensure_ascii=False), role=role.name, cause_by=cause)
        except TypeError:
            pass
    name = f"{type(action).__name__}.run" if action is not None else f"{role.name}._act"
    raise UsageError(
        f"`{name}` returned {result!r}, which no message can carry."
        + (
            forgotten_await(result)
            or " Return a str, a `Message`, a pydantic model, a JSON value, or None."
        )
    )
