"""AG2 (AutoGen) chats as AG2 itself keeps them: lists of messages.

Read are `chat_result.chat_history`, a list of messages; a whole `ChatResult` as an object with
`chat_history`; and lists of that form in which every message names its speaker.

Invariant: every message is at least one event, in the order of the list.

- The speaker is `name`; `role`, the speaker as its partner's model sees it, is in `data["as"]`.
  AG2 leaves the name out of messages with tool calls: of two speakers it is the one whose turn it
  is.
- `tool_calls` and `function_call` become `tool_call` events, `tool_responses` and messages of the
  role `tool` or `function` become `tool_result` events with the call as their cause.
- Executed code and farewells: see `chat`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats._said import as_text
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.chat import execution, says_farewell
from rolecraft.failure_taxonomy.formats.lines import account
from rolecraft.messages import ALL
from rolecraft.trajectories.events import Event, EventKind
from rolecraft.trajectories.trajectory import Trajectory

NAME = "ag2"
RECORDS: tuple[EventKind, ...] = ("message", "tool_call", "tool_result")
"""The kinds of event that these chats show."""

MOST_OPEN = 500
"""The call that a result answers is looked for in so many events before it."""

_HEADER = frozenset({"chat_id", "chat_history", "cost", "human_input", "summary"})
_TOOLS = ("tool_calls", "function_call", "tool_responses")


def speaks(message: Any) -> bool:
    """True for an object that may be a message of a chat between named agents."""
    if not isinstance(message, dict) or not message.keys() & {"content", *_TOOLS}:
        return False
    return bool(message.get("name") or message.keys() & set(_TOOLS)) or (
        message.get("role") in ("tool", "function", "system")
    )


def _messages(document: Any) -> list[Any] | None:
    if isinstance(document, dict):
        document = document.get("chat_history")
    if not isinstance(document, list) or not document or not all(map(speaks, document)):
        return None
    return document if any(message.get("name") for message in document) else None


def _recognises(source: Source) -> bool:
    return _messages(source.document) is not None


def _load(source: Source) -> Trajectory:
    document = source.document
    messages = document.get("chat_history") if isinstance(document, dict) else document
    if not isinstance(messages, list) or not messages:
        reason = (
            source.flaw or "an AG2 chat is a list of messages, or an object with `chat_history`"
        )
        raise TraceError(source.path, reason)
    events, problems = chat_events(messages, where=str(source.path))
    around = document.keys() - {"chat_history"} if isinstance(document, dict) else set()
    labels = {key: document[key] for key in sorted(around - _HEADER)}
    about = {
        "records": list(RECORDS),
        "task": events[0].content,
        "roles": roles_of(events),
        "labels": labels,
        "accounting": account(
            "element",
            events=len(messages),
            header=len(around) - len(labels),
            labels=len(labels),
        ),
    }
    return Trajectory(source.path.stem, about, events, problems)


def roles_of(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [{"name": role} for role in dict.fromkeys(event.role for event in events) if role]


def chat_events(messages: Sequence[Any], *, where: str) -> tuple[list[Event], list[str]]:
    """The events of a list of messages, numbered, and what was odd about some of them."""
    events: list[Event] = []
    problems: list[str] = []
    names = dict.fromkeys(
        str(message["name"])
        for message in messages
        if isinstance(message, dict) and message.get("name")
    )
    for index, message in enumerate(messages):
        made, flaw = turn_events(_named(message, events, list(names)), events)
        for event in made:
            event.seq = event.time = len(events)
            event.data["turn"] = index
            events.append(event)
        if flaw:
            problems.append(f"{where}: message {index}: {flaw}")
    return events, problems


def _named(message: Any, before: Sequence[Event], names: Sequence[str]) -> Any:
    """The message with its speaker, where AG2 left the name out and two agents take turns."""
    if not isinstance(message, dict) or message.get("name") or not message.keys() & set(_TOOLS):
        return message
    if len(names) != 2 or not before or before[-1].role not in names:
        return message
    return {**message, "name": names[1 - names.index(before[-1].role)]}


def turn_events(message: Any, before: Sequence[Event]) -> tuple[list[Event], str]:
    """The events of one message, and what was odd about it. `before` are the events so far."""
    if not isinstance(message, dict):
        return [Event("message", content=as_text(message), to=(ALL,))], "it is no object"
    said, flaw = _content(message.get("content"))
    role, name = message.get("role"), message.get("name")
    written = name or role or ""
    speaker = written if isinstance(written, str) else as_text(written)
    if not speaker:
        flaw = "it names no speaker"
    responses = [row for row in _list(message.get("tool_responses")) if isinstance(row, dict)]
    if responses:
        return [_response(row, speaker, before) for row in responses], flaw
    if role in ("tool", "function"):
        return [_response({**message, "content": said}, speaker, before)], flaw
    calls = [_call(row, speaker) for row in _calls(message)]
    made = []
    if said or not calls:
        made.append(_said(said, speaker, before))
        if name and role:
            made[0].data["as"] = as_text(role)
    return [*made, *calls], flaw


def _said(said: str, speaker: str, before: Sequence[Event]) -> Event:
    executed = execution(said, speaker, before[-1] if before else None)
    if executed is not None:
        return executed
    event = Event("message", role=speaker, content=said, to=(ALL,))
    if says_farewell(said):
        event.data["farewell"] = True
    return event


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls: list[Mapping[str, Any]] = [
        row for row in _list(message.get("tool_calls")) if isinstance(row, dict)
    ]
    old = message.get("function_call")
    return [*calls, {"function": old}] if isinstance(old, dict) else calls


def _call(row: Mapping[str, Any], speaker: str) -> Event:
    function = row.get("function")
    function = function if isinstance(function, dict) else row
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"text": arguments}
    data = {"tool": as_text(function.get("name")), "arguments": arguments}
    if row.get("id"):
        data["id"] = as_text(row["id"])
    return Event("tool_call", role=speaker, data=data)


def _response(row: Mapping[str, Any], speaker: str, before: Sequence[Event]) -> Event:
    """The result of a call, found by its id or, without one, as the last call of that name."""
    content, _ = _content(row.get("content"))
    wanted = row.get("tool_call_id") or row.get("id")
    call = next(
        (
            event
            for event in reversed(before[-MOST_OPEN:])
            if event.kind == "tool_call"
            and (event.data.get("id") == wanted if wanted else event.data["tool"] == speaker)
        ),
        None,
    )
    data: dict[str, Any] = {
        "tool": call.data["tool"] if call is not None else speaker,
        "ok": not content.startswith("Error"),
    }
    cause = None if call is None else call.seq
    return Event("tool_result", role=speaker, content=content, data=data, cause=cause)


def _content(value: Any) -> tuple[str, str]:
    """The text of a message: a text, lines of text, or parts with text."""
    if isinstance(value, str) or value is None:
        return value or "", ""
    if isinstance(value, list):
        if all(isinstance(line, str) for line in value):
            return "\n".join(value), ""
        texts = [part.get("text") if isinstance(part, dict) else None for part in value]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(map(str, texts)), ""
    return as_text(value), "its content is no text and is kept as JSON"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


FORMAT = Format(NAME, "a chat of AG2 / AutoGen agents (JSON)", _recognises, _load, (".json",))
