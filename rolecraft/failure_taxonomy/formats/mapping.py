"""A format of one's own as a field mapping: which field of an event means what.

A mapping is a file in YAML, TOML or JSON:

    name: helpdesk
    traces: runs             # where the traces stand; left out: each value of the file is one
    id: run_id
    task: ticket.text
    events: log              # the list of events of a trace
    event:
      role: [agent, who]     # the first of these fields that an event has
      content: text
      kind: type
      kinds: {say: message, plan: thought, use: tool_call, got: tool_result}
      tool: call.name
      arguments: call.args
      id: call.id
    roles: {customer: user}  # other names for roles

A name with dots leads into objects. Fields of a trace that the mapping does not name, also those
beside a named one in such an object, are kept in `about["labels"]`, where no detector and no judge
looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from rolecraft.errors import TraceError, UnknownName, UsageError
from rolecraft.failure_taxonomy.formats._said import Part, as_arguments, as_text
from rolecraft.failure_taxonomy.formats._telling import Telling
from rolecraft.failure_taxonomy.formats._values import one_or_all, records, values
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.messages import ALL
from rolecraft.trajectories.events import EVENT_KINDS, EventKind
from rolecraft.trajectories.trajectory import Trajectory

_Fields = tuple[str, ...]
_EVENT = ("role", "content", "kind", "to", "tool", "arguments", "id", "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMapping:
    """Where things stand in files of one format. Each field is a list of names, tried in order."""

    name: str
    events: _Fields
    event: Mapping[str, _Fields]
    """For each of role, content, kind, to, tool, arguments, id and ok."""
    traces: _Fields = ()
    id: _Fields = ("id",)
    task: _Fields = ()
    kinds: Mapping[str, EventKind] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    """Fields with the values that a trace must have for its file to be recognised."""
    suffixes: _Fields = (".json", ".jsonl")

    def format(self) -> Format:
        """The format that it describes, ready for `register_format`."""
        return Format(
            self.name,
            f"what the mapping {self.name!r} describes",
            self._recognises,
            lambda source: one_or_all(self._load(source)),
            self.suffixes,
        )

    def _traces(self, source: Source) -> list[Any]:
        found = records(source)
        if not self.traces:
            return found
        inside = [_at(record, self.traces) for record in found]
        return [each for part in inside if isinstance(part, list) for each in part]

    def _recognises(self, source: Source) -> bool:
        for trace in self._traces(source)[:1]:
            listed = _at(trace, self.events)
            fits = all(_at(trace, (name,)) == value for name, value in self.where.items())
            said = self.event.get("content", ()), self.event.get("role", ())
            return (
                fits
                and isinstance(listed, list)
                and any(_at(each, names) is not None for each in listed[:20] for names in said)
            )
        return False

    def _load(self, source: Source) -> Iterator[Trajectory]:
        found = [each for each in self._traces(source) if isinstance(_at(each, self.events), list)]
        _, flaws = values(source)
        if not found:
            what = f": {flaws[0]}" if flaws else f" ({' or '.join(self.events)})"
            raise TraceError(source.path, f"no list of events is in it{what}")
        names: set[str] = set()
        for number, record in enumerate(found):
            name = as_text(_at(record, self.id))
            if not name or name in names:
                name = source.path.stem if len(found) == 1 else str(number)
            names.add(name)
            trajectory = self._trace(name, record)
            trajectory.problems += [f"{source.path}: {flaw}" for flaw in flaws]
            yield trajectory

    def _trace(self, name: str, record: Mapping[str, Any]) -> Trajectory:
        shown = dict.fromkeys(("message", *(self.kinds.values() or ("thought",))))
        about: dict[str, Any] = {"format": self.name, "records": list(shown)}
        task = _at(record, self.task)
        if task is not None:
            about["task"] = as_text(task)
        labels = _unnamed(
            record, [path.split(".") for path in (*self.events, *self.id, *self.task)]
        )
        if labels:
            about["labels"] = labels
        trajectory = Trajectory(name, about)
        telling = Telling(trajectory)
        for index, each in enumerate(_at(record, self.events)):
            self._tell(telling, index, each)
        return telling.finish()

    def _tell(self, telling: Telling, index: int, each: Any) -> None:
        trajectory = telling.trajectory

        def of(what: str) -> Any:
            return _at(each, self.event.get(what, ()))

        written = as_text(of("kind"))
        kind: Any = self.kinds.get(written, written if written in EVENT_KINDS else "message")
        role, content = as_text(of("role")), as_text(of("content"))
        role = self.roles.get(role, role)
        if not isinstance(each, Mapping) or (not role and not content and of("tool") is None):
            telling.counts["unsegmented"] += 1
            telling.add("message", "", as_text(each))
            trajectory.problems.append(f"event {index} has none of the mapped fields")
            return
        telling.counts["events"] += 1
        if written and self.kinds and written not in self.kinds and written not in EVENT_KINDS:
            trajectory.problems.append(f"event {index}: its kind {written!r} is not in `kinds`")
        if not role:
            trajectory.problems.append(f"event {index} names no role")
        ok = of("ok")
        part = Part(
            "result" if kind == "tool_result" else "call",
            content,
            as_text(of("tool")),
            as_text(of("id")),
            as_arguments(of("arguments")),
            ok if isinstance(ok, bool) else None,
        )
        if kind == "tool_call":
            telling.call(role, part).content = content
        elif kind == "tool_result":
            telling.result(role, part)
        else:
            to = of("to")
            names = to if isinstance(to, list) else [to] if to else []
            telling.add(kind, role, content, to=tuple(map(as_text, names)) or (ALL,))


def _at(value: Any, paths: _Fields) -> Any:
    """What stands under the first of these names."""
    for path in paths:
        found = value
        for step in path.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def _unnamed(record: Mapping[str, Any], named: list[list[str]]) -> dict[str, Any]:
    """The fields that no path names; of an object that a path leads into, its other ones."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        below = [path[1:] for path in named if path[0] == key]
        if not below:
            found[key] = value
        elif [] not in below and isinstance(value, Mapping):
            inner = _unnamed(value, below)
            if inner:
                found[key] = inner
        elif [] not in below:
            found[key] = value  # the path leads nowhere here
    return found


def load_mapping(path: Path | str) -> Format:
    """The format that a mapping file describes: YAML, TOML or JSON by its ending.

    Raises `UsageError` for a file that cannot be read, and `UnknownName` for a field of a mapping
    that does not exist.
    """
    return read_mapping(_read(Path(path)), where=f"The mapping {str(path)!r}").format()


_KNOWN = ("name", "traces", "id", "task", "events", "event", "roles", "where", "suffixes")


def read_mapping(given: Any, *, where: str = "The mapping") -> FieldMapping:
    """A mapping from plain data. Raises `UsageError` and `UnknownName` as `load_mapping`."""
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} is an object with `name`, `events` and `event`, not {given!r}.")
    for key in given:
        if key not in _KNOWN:
            raise UnknownName(f"{where}: field", str(key), _KNOWN)
    event = given.get("event")
    if not given.get("name") or not given.get("events") or not isinstance(event, Mapping):
        raise UsageError(f"{where} wants a `name`, the field of the `events`, and `event`.")
    for key in event:
        if key not in (*_EVENT, "kinds"):
            raise UnknownName(f"{where}: field of `event`", str(key), (*_EVENT, "kinds"))
    if not event.get("role") or not (event.get("content") or event.get("tool")):
        raise UsageError(f"{where} says in `event` where `role` and `content` (or `tool`) stand.")
    kinds = _table(event.get("kinds"), f"{where}: `kinds`")
    for kind in kinds.values():
        if kind not in EVENT_KINDS:
            raise UnknownName(f"{where}: kind of event", str(kind), get_args(EventKind))
    return FieldMapping(
        name=str(given["name"]),
        traces=_paths(given.get("traces"), where),
        id=_paths(given.get("id", "id"), where),
        task=_paths(given.get("task"), where),
        events=_paths(given["events"], where),
        event={key: _paths(event.get(key), where) for key in _EVENT},
        kinds=kinds,
        roles={key: str(name) for key, name in _table(given.get("roles"), where).items()},
        where=_table(given.get("where"), where),
        suffixes=_paths(given.get("suffixes", [".json", ".jsonl"]), where),
    )


def _paths(value: Any, where: str) -> _Fields:
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, str) and each for each in listed):
        raise UsageError(f"{where}: a field is a name or a list of names, not {value!r}.")
    return tuple(listed)


def _table(value: Any, where: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise UsageError(f"{where}: this wants pairs of names, not {value!r}.")
    return {str(key): each for key, each in (value or {}).items()}


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"The mapping {str(path)!r} cannot be read: {reason}.") from None
    try:
        if path.suffix == ".toml":
            import tomllib

            return tomllib.loads(text)
        if path.suffix == ".json":
            import json

            return json.loads(text)
        import yaml  # type: ignore[import-untyped]  # comes with LiteLLM

        return yaml.safe_load(text)
    except Exception as error:  # each of the three has errors of its own
        reason = " ".join(str(error).split())
        raise UsageError(f"The mapping {str(path)!r} is not valid: {reason}.") from error
