"""A role's conversations: system prompt, seeds, and the record of every model call."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rolecraft.errors import UsageError
from rolecraft.models.base import DEFAULT_SAMPLING, Sampling
from rolecraft.models.resolve import resolve_model
from rolecraft.trajectories.events import Event

if TYPE_CHECKING:
    from rolecraft.models.base import Call, Completion, Model, Session
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


def record(role: Role, session: Session, call: Call, answer: Completion) -> None:
    """Write the events of one model call: with those before it, exactly what the model saw."""
    data: dict[str, Any] = {"session": session.id, "model": session.model.name}
    messages = list(call.messages)
    if messages and messages[0].role == "system":
        data["system"] = messages.pop(0).content
    data["messages"] = [
        {"role": message.api_role, "content": message.content} for message in messages
    ]
    data["finish_reason"] = answer.finish_reason
    if call.sampling is not DEFAULT_SAMPLING:
        data["sampling"] = {
            name: value
            for name in Sampling.__slots__
            if (value := getattr(call.sampling, name)) not in (None, ())
        }
    if call.tools:
        data["tools"] = [asdict(tool) for tool in call.tools]
    if answer.tool_calls:
        data["tool_calls"] = [
            {name: value for name, value in asdict(tool_call).items() if value}
            for tool_call in answer.tool_calls
        ]
    event = Event("model_call", content=answer.text, data=data, cause=role._cause())
    event.usage, event.tokens = answer.usage, answer.tokens
    said = role._write(event)
    if answer.reasoning:
        role._write(Event("thought", content=answer.reasoning, cause=said))
