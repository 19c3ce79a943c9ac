"""Mappings in files: what is read of one, and what is wrong with it.

Invariant: a mapping that names a field which there is not, or lacks one that it wants, is refused
with its file and the field, before any trace is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy.formats.base import Format
from rolecraft.failure_taxonomy.formats.mapping import EVENT_FIELDS, FieldMapping, Lines
from rolecraft.trajectories.events import EVENT_KINDS, EventKind


def load_mapping(path: Path | str) -> Format:
    """The format that a mapping file describes: YAML, TOML or JSON by its ending.

    Raises `UsageError` for a file that cannot be read, and `UnknownName` for a field of a mapping
    that does not exist.
    """
    return read_mapping(_read(Path(path)), where=f"The mapping {str(path)!r}").format()


_KNOWN = (
    "name",
    "lines",
    "trace",
    "traces",
    "id",
    "task",
    "system",
    "model",
    "scenario",
    "events",
    "event",
    "roles",
    "where",
    "suffixes",
)


_MISPLACED = {
    "event": "is of files whose values are whole traces; where each line is an event, `trace` "
    "names the field that those of one trace share",
    "trace": "is of files with one event a line, and wants `lines: event`",
}


def read_mapping(given: Any, *, where: str = "The mapping") -> FieldMapping:
    """A mapping from plain data. Raises `UsageError` and `UnknownName` as `load_mapping`."""
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} is an object with `name`, `events` and `event`, not {given!r}.")
    for key in given:
        if key not in _KNOWN:
            raise UnknownName(f"{where}: field", str(key), _KNOWN)
    event = given.get("event")
    lines = given.get("lines", "trace")
    if lines not in get_args(Lines):
        raise UsageError(f"{where}: `lines` is `trace` or `event`, not {lines!r}.")
    wanted = bool(given.get("events")) or lines == "event"
    if not given.get("name") or not wanted or not isinstance(event, Mapping):
        raise UsageError(
            f"{where} wants a `name`, the field of the `events` (or `lines: event`), and `event`."
        )
    for key in ("traces", "id", "events") if lines == "event" else ("trace",):
        if given.get(key):
            raise UsageError(f"{where}: `{key}` {_MISPLACED[lines]}.")
    for key in event:
        if key not in (*EVENT_FIELDS, "kinds"):
            raise UnknownName(f"{where}: field of `event`", str(key), (*EVENT_FIELDS, "kinds"))
    if not event.get("role") or not (event.get("content") or event.get("tool")):
        raise UsageError(f"{where} says in `event` where `role` and `content` (or `tool`) stand.")
    kinds = _table(event.get("kinds"), f"{where}: `kinds`")
    for kind in kinds.values():
        if kind not in EVENT_KINDS:
            raise UnknownName(f"{where}: kind of event", str(kind), get_args(EventKind))
    return FieldMapping(
        name=str(given["name"]),
        lines=lines,
        trace=_paths(given.get("trace"), where),
        traces=_paths(given.get("traces"), where),
        id=_paths(given.get("id", "id"), where),
        task=_paths(given.get("task"), where),
        system=_paths(given.get("system"), where),
        model=_paths(given.get("model"), where),
        scenario=_paths(given.get("scenario"), where),
        events=_paths(given.get("events"), where),
        event={key: _paths(event.get(key), where) for key in EVENT_FIELDS},
        kinds=kinds,
        roles={key: str(name) for key, name in _table(given.get("roles"), where).items()},
        where=_table(given.get("where"), where),
        suffixes=_paths(given.get("suffixes", [".json", ".jsonl"]), where),
    )


def _paths(value: Any, where: str) -> tuple[str, ...]:
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
