"""A role's conversations: system prompt, seeds, and the record of every model call."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from rolecraft.errors import Diverged, UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models.base import DEFAULT_SAMPLING, Completion, Model, Sampling
from rolecraft.models.resolve import HUMAN, resolve_model
from rolecraft.roles import crossing
from rolecraft.trajectories.beginnings import among
from rolecraft.trajectories.codec import encode_line, usage_members
from rolecraft.trajectories.events import Event, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rolecraft.models.base import Call, Session
    from rolecraft.roles.role import Role
    from rolecraft.roles.surroundings import Surroundings
    from rolecraft.trajectories.past import RecordedCall


_OF_CALL = tuple(each.name for each in fields(ToolCall))


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


def open_session(role: Role, system: str | None, asked: Model | str | None = None) -> Session:
    """A session of the role's model, or of `asked`, numbered, seeded, recorded, in the budget."""
    env = role.rc.env
    model: Model | str | None
    if env is not None and env.past is not None and env.past.strict:
        model = _Recorded(_first(asked, role.model, env.model))
    else:
        model = env.model_of(role, asked) if env is not None else asked or role.model
    if isinstance(model, str):
        model = resolve_model(model)
        if asked is None:
            role.model = model  # once: a local model takes its time to load
    if model is None:
        raise UsageError(
            f"Role {role.name!r} asks a model and has none. Give it one: "
            f"`{type(role).__name__}(model='openai/gpt-4o-mini')`, or `model=` of its team, or "
            f"`--model MODEL` on the command line; in a test, `model=ScriptedModel([...])`."
        )
    name = f"{role.name}/{role._next_session()}"
    seed = env.seed if env is not None else 0
    session = model.session(
        role.name,
        system=role.system_prompt if system is None else system,
        seed=int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=7).digest()),
    )
    session.id = name
    session.budget = role._budget
    session.on_ask = role._model_asked
    session.on_answer = role._model_answered
    session.on_failure = _failed
    if session.budget is not None:
        session.on_limit = partial(crossing.in_call, role)
    if env is not None and env.on_delta is not None:
        session.on_delta = partial(env.on_delta, role.name, name)
    return session


class _Recorded(Model):
    """Stands for whatever answered when the run was recorded. It never answers itself."""

    name = "record"
    real = False

    def __init__(self, spec: Model | str | None) -> None:
        # A person was asked in words, so that the questions of the record are other ones.
        self.person = spec == HUMAN or (isinstance(spec, Model) and spec.person)

    async def _complete(self, session: Session, tools: Any, sampling: Sampling) -> Completion:
        raise AssertionError("a run that only follows its record never asks a model")


def _first(*specs: Model | str | None) -> Model | str | None:
    return next((spec for spec in specs if spec is not None), None)


def asked(role: Role, session: Session, call: Call) -> Completion | None:
    """Reserve the place of an answer in the record; the answer, if a record has it already."""
    session.place = role._log_now().place()
    env = role.rc.env
    if env is None:
        return None
    if env.past is None:
        _tell(role, session, env)
        return None
    past = env.past.answer(_question(session, call))
    if past is None:
        refused = env.past.refusal(session.id)
        if refused is not None:
            session.place.close()
            crossing.count(role._budget, refused)
            raise crossing.read_reached(refused)
        if env.past.strict:
            session.place.close()
            raise _no_answer(role, session, call, env)
        crossing.again(role, session.place, env.past.granted(session.id))
        _tell(role, session, env)
        return None
    crossing.again(role, session.place, past.before)
    session.crossed_after = past.after
    return _completion(session, past)


def _tell(role: Role, session: Session, env: Surroundings) -> None:
    """Tell observers that want to know that a model is asked now."""
    if not env.recorder.observers:
        return
    for observer in among(env.recorder.observers):
        observer.call_begins(role.name, session.id, session.model.name, role._cause())


def _no_answer(role: Role, session: Session, call: Call, env: Surroundings) -> Exception:
    """Why a call that the record does not answer has none: what was raised then, or nothing."""
    assert env.past is not None
    failure = env.past.failure(role.name)
    if failure is not None:
        return crossing.read_reached(failure)
    asked = encode_line(_question(session, call)).decode().rstrip()
    return Diverged(env.recorder.next, "no such model call", f"model_call {asked}")


def _completion(session: Session, past: RecordedCall) -> Completion:
    event = past.event
    data = event.data
    session.given_by = data["model"]
    return Completion(
        text=event.content,
        reasoning=past.reasoning,
        tool_calls=[ToolCall(**_with_arguments(call)) for call in data.get("tool_calls", ())],
        usage=event.usage or Usage(),
        finish_reason=data.get("finish_reason", "unknown"),
        tokens=event.tokens,
        attempts=data.get("attempts", 1),
        provider_fields=deepcopy(data.get("provider_fields", {})),
        passed_over=deepcopy(data.get("passed_over", [])),
        own_usage=Usage(**data["own_usage"]) if "own_usage" in data else None,
        kept=Usage(**data["kept"]) if "kept" in data else None,
    )


def _as_row(value: Any) -> Any:
    """A field of a call as the journal gives it back: a copy, and a list for a tuple."""
    return list(value) if type(value) is tuple else deepcopy(value)


def _with_arguments(call: dict[str, Any]) -> dict[str, Any]:
    return {"arguments": {}, **call, "repairs": tuple(call.get("repairs", ()))}


def _failed(session: Session) -> None:
    if session.place is not None:
        session.place.close()
        session.place = None


def _question(session: Session, call: Call) -> dict[str, Any]:
    """What was asked: with the calls before it in the session, exactly what the model saw."""
    return {"session": session.id, **_said_to_model(call.messages)}


def _said_to_model(messages: Sequence[Message]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if messages and messages[0].role == "system":
        data["system"] = messages[0].content
        messages = messages[1:]
    data["messages"] = [{"role": each.api_role, "content": each.content} for each in messages]
    return data


def answered(role: Role, session: Session, call: Call, answer: Completion) -> None:
    """Write the events of one model call."""
    data = {
        "session": session.id,
        "model": session.given_by or answer.model or session.model.name,
        **_said_to_model(call.messages),
        "finish_reason": answer.finish_reason,
    }
    session.given_by = ""
    if answer.attempts > 1:
        data["attempts"] = answer.attempts
    if call.sampling is not DEFAULT_SAMPLING:
        data["sampling"] = {
            name: value
            for name in Sampling.__slots__
            if (value := getattr(call.sampling, name)) not in (None, ())
        }
    if call.tools != session.offered:  # most calls offer what the one before did
        session.offered = call.tools
        data["tools"] = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in call.tools
        ]
    if answer.tool_calls:
        data["tool_calls"] = [
            {name: _as_row(value) for name in _OF_CALL if (value := getattr(tool_call, name))}
            for tool_call in answer.tool_calls
        ]
    if answer.provider_fields:
        data["provider_fields"] = deepcopy(answer.provider_fields)
    if answer.passed_over:
        data["passed_over"] = deepcopy(answer.passed_over)
    if answer.own_usage is not None:
        data["own_usage"] = usage_members(answer.own_usage)
    if answer.kept is not None:
        data["kept"] = usage_members(answer.kept)
    event = Event("model_call", role.name, answer.text, data=data, cause=role._cause())
    event.usage, event.tokens = answer.usage, answer.tokens
    place = session.place or role._log_now().place()
    said = place.add(event)
    if answer.reasoning:
        place.add(Event("thought", role.name, answer.reasoning, cause=said))
    place.close()
    session.place = None
    if session.crossed_after:
        crossed, session.crossed_after = session.crossed_after, ()
        crossing.again(role, role._log_now(), crossed)
