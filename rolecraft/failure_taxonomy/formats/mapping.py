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

Logs with one event a line have `lines: event` instead of `events`, and `trace: run_id` if lines of
several traces are in one file. A name with dots leads into objects. Fields of a trace that the
mapping does not name, also those beside a named one in such an object, are kept in
`about["labels"]`, where no detector and no judge looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats._said import Part, as_arguments, as_text
from rolecraft.failure_taxonomy.formats._telling import Telling
from rolecraft.failure_taxonomy.formats._values import one_or_all, records, values
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.messages import ALL
from rolecraft.trajectories.events import EVENT_KINDS, EventKind
from rolecraft.trajectories.trajectory import Trajectory

_Fields = tuple[str, ...]

LOOKED = 1000
"""So many events are looked at for a role before a mapping is said not to fit."""

Lines = Literal["trace", "event"]
"""What a line of a file is, or a value of it: a whole trace, or one event."""

EVENT_FIELDS = ("role", "content", "kind", "to", "tool", "arguments", "id", "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMapping:
    """Where things stand in files of one format. Each field is a list of names, tried in order."""

    name: str
    events: _Fields
    """The list of events of a trace; empty where each line is one."""
    event: Mapping[str, _Fields]
    """For each of role, content, kind, to, tool, arguments, id and ok."""
    lines: Lines = "trace"
    trace: _Fields = ()
    """Of lines that are events, what those of one trace have in common; all of a file without."""
    traces: _Fields = ()
    id: _Fields = ("id",)
    task: _Fields = ()
    system: _Fields = ()
    model: _Fields = ()
    scenario: _Fields = ()
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
            lambda source: not self.misfit(source),
            lambda source: one_or_all(self._load(source)),
            self.suffixes,
            misfit=self.misfit,
        )

    def misfit(self, source: Source) -> str:
        """Why a file is not of this form, in a few words; empty if it is."""
        told = self._told(source)
        for name, value in self.where.items():
            if told and told[0].of((name,)) != value:
                return f"its {_quoted((name,))} is not {value!r}"
        return self._flaw(source, told)

    def _flaw(self, source: Source, told: list[_Told]) -> str:
        """Why nothing can be read of a file, whatever it should have to be recognised."""
        if not told:
            found, flaws = values(source)
            if not found:
                return f"it holds no JSON that can be read{f': {flaws[0]}' if flaws else ''}"
            if self.traces and not self._listed(source):
                return f"no list of traces is in it ({_quoted(self.traces)})"
            if self.lines == "event":
                return "none of its values is an object, so none is an event"
            return f"no list of events is in it ({_quoted(self.events)})"
        looked = list(islice((each for one in told for each in one.events), LOOKED))
        if not looked:
            return f"its lists of events are empty ({_quoted(self.events)})"
        role, content, tool = (self.event.get(what, ()) for what in ("role", "content", "tool"))
        if all(_at(each, role) is None for each in looked):
            return f"no event has a role ({_quoted(role)})"
        if all(_at(each, content) is None and _at(each, tool) is None for each in looked):
            return f"no event has a content ({_quoted((*content, *tool))})"
        return ""

    def _listed(self, source: Source) -> list[Any]:
        found = records(source)
        if not self.traces:
            return found
        inside = [_at(record, self.traces) for record in found]
        return [each for part in inside if isinstance(part, list) for each in part]

    def _told(self, source: Source) -> list[_Told]:
        """The traces of a file."""
        listed = self._listed(source)
        if self.lines == "trace":
            lists = [(each, _at(each, self.events)) for each in listed]
            return [_Told([each], events) for each, events in lists if isinstance(events, list)]
        groups: dict[str, list[Any]] = {}
        for each in listed:
            groups.setdefault(as_text(_at(each, self.trace)), []).append(each)
        if not any(isinstance(each, Mapping) for each in listed):
            return []
        return [_Told(lines, lines, name) for name, lines in groups.items()]

    def _load(self, source: Source) -> Iterator[Trajectory]:
        found = self._told(source)
        flaw = self._flaw(source, found)
        if flaw:
            raise TraceError(source.path, f"the mapping `{self.name}` does not fit: {flaw}")
        _, flaws = values(source)
        lost = len(self._listed(source)) - len(found) if self.lines == "trace" else 0
        if lost:
            flaws = [*flaws, f"without a list of events, and left out: {lost}"]
        names: set[str] = set()
        for number, told in enumerate(found):
            name = told.name or as_text(told.of(self.id) if self.lines == "trace" else None)
            if not name or name in names:
                name = source.path.stem if len(found) == 1 else str(number)
            names.add(name)
            trajectory = self._trace(name, told)
            trajectory.problems += [f"{source.path}: {flaw}" for flaw in flaws]
            if self.trace and not told.name:
                trajectory.problems.append(f"its lines have no {_quoted(self.trace)}")
            yield trajectory

    def _trace(self, name: str, told: _Told) -> Trajectory:
        shown = dict.fromkeys(("message", *(self.kinds.values() or ("thought",))))
        about: dict[str, Any] = {"format": self.name}
        of_the_trace = {
            "task": self.task,
            "system": self.system,
            "model": self.model,
            "scenario": self.scenario,
        }
        for what, paths in of_the_trace.items():
            if (value := told.of(paths)) is not None:
                about[what] = as_text(value)
        if self.lines == "trace":
            named = (
                *self.events,
                *self.id,
                *(path for paths in of_the_trace.values() for path in paths),
            )
            labels = _unnamed(told.records[0], [path.split(".") for path in named])
            if labels:
                about["labels"] = labels
        trajectory = Trajectory(name, about)
        telling = Telling(trajectory)
        for index, each in enumerate(told.events):
            self._tell(telling, index, each)
        about["records"] = list(shown | dict.fromkeys(event.kind for event in trajectory.events))
        return telling.finish()

    def _tell(self, telling: Telling, index: int, each: Any) -> None:
        trajectory = telling.trajectory

        def of(what: str) -> Any:
            return _at(each, self.event.get(what, ()))

        written = as_text(of("kind"))
        kind: Any = self.kinds.get(written, written if written in EVENT_KINDS else "message")
        role, content = self._name(of("role")), as_text(of("content"))
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
            telling.add(kind, role, content, to=tuple(self._name(each) for each in names) or (ALL,))

    def _name(self, role: Any) -> str:
        name = as_text(role)
        return self.roles.get(name, name)


@dataclass(frozen=True, slots=True)
class _Told:
    """One trace as it stands in a file: the objects with its fields, and its events."""

    records: list[Any]
    events: list[Any]
    name: str = ""

    def of(self, paths: _Fields) -> Any:
        """The first value that one of its objects has under these names."""
        found = (_at(record, paths) for record in self.records)
        return next((value for value in found if value is not None), None)


def _quoted(paths: _Fields) -> str:
    return " or ".join(f"`{path}`" for path in paths)


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
