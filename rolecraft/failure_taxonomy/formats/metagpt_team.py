"""MetaGPT's own record of a team: the `team.json` that `Team.serialize` writes.

Every message that a role's memory holds is read once, in the order of the fullest memory. In
MetaGPT a role speaks by acting only, so each message of a role is preceded by the `action` in its
`cause_by`. What `Human` says is a message of the user, and the task is the team's `idea`.

What MetaGPT keeps of a run but no message (budgets, states, plans) belongs to the header.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.lines import account
from rolecraft.messages import ALL, USER
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory

NAME = "metagpt_team"


def _recognises(source: Source) -> bool:
    document = source.document
    env = document.get("env") if isinstance(document, dict) else None
    return isinstance(env, dict) and isinstance(env.get("roles"), dict) and "idea" in document


def _load(source: Source) -> Trajectory:
    document = source.document
    env = document.get("env") if isinstance(document, dict) else None
    if not isinstance(env, dict):
        reason = source.flaw or "MetaGPT's team is a JSON object with an `env`"
        raise TraceError(source.path, reason)
    by_profile = env.get("roles")
    listed = by_profile.values() if isinstance(by_profile, dict) else ()
    roles = [row for row in listed if isinstance(row, dict)]
    names = {str(row.get("profile")): str(row.get("name") or row.get("profile")) for row in roles}
    trajectory = Trajectory(source.path.stem)
    messages = _messages(env, roles)
    for message in messages:
        _take(trajectory, message, names)
    for seq, event in enumerate(trajectory.events):
        event.seq = event.time = seq
    fields = len(document) + len(env) - 1
    trajectory.about = {
        "records": ["action", "message"],
        "task": str(document.get("idea") or ""),
        "roles": [_described(row) for row in roles],
        "labels": {},
        "accounting": account("element", events=len(messages), header=fields),
    }
    return trajectory


def _is(value: Any) -> bool:
    return isinstance(value, Mapping)


def _messages(env: Mapping[str, Any], roles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All messages, each once: those of the fullest memory, then what only others have."""
    memories = [list(_stored(env.get("history"))), list(_stored(env.get("memory")))]
    memories += [list(_stored(_at(row, "rc", "memory"))) for row in roles]
    found: dict[str, dict[str, Any]] = {}
    for memory in sorted(memories, key=len, reverse=True):
        for message in memory:
            found.setdefault(str(message.get("id") or message), message)
    return list(found.values())


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if _is(value) else None
    return value


def _stored(memory: Any) -> Iterator[dict[str, Any]]:
    storage = _at(memory, "storage")
    if isinstance(storage, list):
        yield from (row for row in storage if isinstance(row, dict))


def _take(trajectory: Trajectory, message: Mapping[str, Any], names: Mapping[str, str]) -> None:
    cause = str(message.get("cause_by") or "")
    written = str(message.get("role") or "")
    to = message.get("send_to")
    to = tuple(map(str, to)) if isinstance(to, list) and to else (ALL,)
    said = Event("message", content=str(message.get("content") or ""), to=to)
    said.data["speaker"] = written
    if written == "Human" or cause.endswith("UserRequirement"):
        said.role = USER
    else:
        said.role = names.get(written, written)
        said.cause = len(trajectory.events)
        action = cause.rsplit(".", 1)[-1] or "_act"
        trajectory.events.append(Event("action", role=said.role, data={"action": action}))
    trajectory.events.append(said)


def _described(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("name", "profile", "goal", "constraints", "desc")
    return {key: str(row[key]) for key in fields if row.get(key)}


FORMAT = Format(NAME, "a team that MetaGPT serialised (JSON)", _recognises, _load, (".json",))
