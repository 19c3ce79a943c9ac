"""Messages in OpenAI's form: a list of them, `{"messages": [...]}`, or lines of either.

Chat messages (`role`, `content`, `tool_calls`) and items of the Responses API (`function_call`,
`function_call_output`, `reasoning`) are read, Anthropic's, Gemini's and LangChain's too. Several
agents are told apart by `name`. A line that is a message belongs to the one trace of its file; a
line with `messages` is a trace of its own. Invariant: nothing is left out or merged: each part of
a message becomes an event, and a first system prompt describes its role.

Every other field beside `messages` is kept in `about["labels"]`, where no detector and no judge
looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats._said import as_text, looks_like_message, read_message
from rolecraft.failure_taxonomy.formats._telling import Telling
from rolecraft.failure_taxonomy.formats._values import (
    first_record,
    one_or_all,
    records,
    values,
)
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.trajectories.trajectory import Trajectory

NAME = "openai_messages"
RECORDS = ("message", "thought", "tool_call", "tool_result")
"""The kinds of event that messages show."""

_LISTS = ("messages", "conversation", "input", "output", "items")
_NAMES = ("id", "trace_id", "conversation_id", "thread_id", "custom_id")


def _recognises(source: Source) -> bool:
    first = first_record(source)
    return _is_message(first) or bool(_listed(first))


def _is_message(record: Any) -> bool:
    return looks_like_message(record) and not isinstance(record.get("messages"), list)


def _listed(record: Any) -> list[Any]:
    """The messages of a record, from all its lists of them, in order."""
    if isinstance(record, list):
        return record if record and all(map(looks_like_message, record)) else []
    if not isinstance(record, Mapping):
        return []
    found: list[Any] = []
    for key in _LISTS:
        part = record.get(key)
        if isinstance(part, list) and any(map(looks_like_message, part)):
            found += part
        elif key == "input" and isinstance(part, str) and isinstance(record.get("output"), list):
            found.append({"role": "user", "content": part})
        if found and key in ("messages", "conversation"):
            break
    return found


def _load(source: Source) -> Trajectory | list[Trajectory]:
    return one_or_all(_traces(source))


def _traces(source: Source) -> Iterator[Trajectory]:
    found = records(source)
    _, flaws = values(source)
    problems = [f"{source.path}: {flaw}" for flaw in flaws]
    if not found:
        raise TraceError(source.path, f"there are no messages in it{_of(flaws)}")
    if _is_message(found[0]):
        yield _trace(source.path.stem, {}, found, problems)
        return
    lines = [record for record in found if _listed(record)]
    if not lines:
        raise TraceError(source.path, f"there are no messages in it{_of(flaws)}")
    if len(lines) < len(found):
        problems.append(f"{source.path}: {len(found) - len(lines)} records hold no messages")
    names: set[str] = set()
    for number, record in enumerate(lines):
        about = record if isinstance(record, Mapping) else {}
        name = next((as_text(about[key]) for key in _NAMES if about.get(key)), "")
        if not name or name in names:
            name = source.path.stem if len(lines) == 1 else str(number)
        names.add(name)
        yield _trace(name, about, _listed(record), problems)


def _of(flaws: list[str]) -> str:
    return f": {flaws[0]}" if flaws else ""


def _trace(
    name: str, record: Mapping[str, Any], messages: list[Any], problems: list[str]
) -> Trajectory:
    about: dict[str, Any] = {"format": NAME, "records": list(RECORDS)}
    trajectory = Trajectory(name, about, problems=list(problems))
    telling = Telling(trajectory)
    if isinstance(record.get("instructions"), str) and record["instructions"]:
        telling.role("assistant", system=record["instructions"])
    tell_messages(telling, messages)
    labels = {
        key: value
        for key, value in record.items()
        if key not in {*_LISTS, *_NAMES, "tools", "instructions"}
    }
    if labels:
        about["labels"] = labels
    return telling.finish()


def tell_messages(telling: Telling, messages: list[Any]) -> None:
    """Tell a list of messages as it stands; what is none is kept as its JSON, and said."""
    trajectory = telling.trajectory
    for index, message in enumerate(messages):
        said = read_message(message)
        if said is None:
            telling.counts["unsegmented"] += 1
            telling.add("message", "", as_text(message))
            trajectory.problems.append(f"message {index} is none that is known; kept as JSON")
            continue
        if not said.parts:
            telling.counts["blank"] += 1
            if said.side in ("assistant", "user", "named"):
                telling.counts["blank"] -= 1
                telling.counts["events"] += 1
                speaker = said.name or ("user" if said.side == "user" else "assistant")
                telling.add("message", speaker, to=("<all>",))
            continue
        telling.says(said.name if said.side == "system" else "", said)


FORMAT = Format(
    NAME, "messages in OpenAI's form (JSON list, `messages`, or lines)", _recognises, _load
)
