"""A role's conversations: system prompt, seeds, and the record of every model call."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.models.resolve import resolve_model
from rolecraft.trajectories.events import Event

if TYPE_CHECKING:
    from rolecraft.models.base import Completion, Model, Session
    from rolecraft.roles.role import Role


def system_prompt(role: Role) -> str:
    """A prompt of the fields that are set; empty for a role that only has a name."""
    lines = []
    if role.profile:
        lines.append(f"You are {role.name}, {role.profile}.")
    if role.goal:
        lines.append(f"Your goal: {role.goal}.")
    if role.constraints:
        lines.append(f"Constraints: {role.constraints}.")
    if role.desc:
        lines.append(role.desc)
    return "\n".join(lines)


def open_session(role: Role, system: str | None) -> Session:
    """A session of the role's model, numbered, seeded, recorded and within the budget."""
    env = role.rc.env
    model: Model | str | None = env.model_of(role) if env is not None else role.model
    if isinstance(model, str):
        model = role.model = resolve_model(model)  # once: a local model takes its time to load
    if model is None:
        raise UsageError(
            f"Role {role.name!r} asks a model and has none. Give it one: "
            f"`{type(role).__name__}(model='openai/gpt-4o-mini')`, or `model=` of its team; in a "
            f"test, `model=ScriptedModel([...])`."
        )
    role.rc.sessions += 1
    name = f"{role.name}/{role.rc.sessions}"
    seed = env.seed if env is not None else 0
    session = model.session(
        role.name,
        system=role.system_prompt if system is None else system,
        seed=int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=7).digest()),
    )
    session.id = name
    session.budget = env.budget if env is not None else None
    session.on_answer = role._model_answered
    return session


def record(role: Role, session: Session, new: Sequence[Message], answer: Completion) -> None:
    """Write the events of one model call."""
    cause = role._cause()
    data: dict[str, Any] = {
        "session": session.id,
        "model": session.model.name,
        "messages": [{"role": message.api_role, "content": message.content} for message in new],
        "finish_reason": answer.finish_reason,
    }
    if len(session.messages) == len(new) + 2 and session.messages[0].role == "system":
        data["system"] = session.messages[0].content
    if answer.tool_calls:
        data["tool_calls"] = [
            {"name": call.name, "arguments": call.arguments, "id": call.id}
            for call in answer.tool_calls
        ]
    call = Event("model_call", content=answer.text, data=data, cause=cause)
    call.usage, call.tokens = answer.usage, answer.tokens
    event = role._write(call)
    if answer.reasoning:
        role._write(Event("thought", content=answer.reasoning, cause=event))
