"""A trace as the MAST data keep it: a log, with a few fields around it.

Read are JSON objects with the log in `trajectory` (the messages of an AG2 chat, the lines of a
HyperAgent log, a text) or in `content` (a MetaGPT log), and texts, bare or written out with their
fields. This is the form of one file of the study's repository, and of the `trace` of a record of
its data sets (`mad`).

Invariant: of the fields around the log only those that are known to describe the run reach the
header. An annotator's `note`, `other_data` (which says if the answer was right) and any field that
is not known go to `about["labels"]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rolecraft.errors import TraceError, UnknownName
from rolecraft.failure_taxonomy.codes import OPEN_CODES, read_coded
from rolecraft.failure_taxonomy.formats import ag2
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.lines import account, merged
from rolecraft.failure_taxonomy.formats.logs import segment
from rolecraft.failure_taxonomy.formats.logs._dump import BODY, HEADER, task_of
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.trajectories.trajectory import Trajectory

NAME = "mast_trace"
_SEGMENTERS = {"ag2": "ag2_dump", "magentic": "autogen", "magenticone": "autogen"}
"""Names of systems in the data that differ from those of our segmenters."""


def system_name(name: str) -> str:
    """A system's name without what differs between spellings: `Magentic-One`, `MagenticOne`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def trace_of(value: Any, *, name: str, where: str, system: str = "") -> Trajectory:
    """The trajectory of a trace: a text, the fields of a trace, or its log.

    `system` is what the data call the system that wrote it, `where` names the file in problems.
    """
    if isinstance(value, str):
        value = _unwrapped(value)
    if isinstance(value, Mapping):
        body = next((key for key in BODY if key in value), None)
        if body is not None:
            return _with_fields(value, body, name=name, where=where, system=system)
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return _of_list(value, name=name, where=where, system=system)
    return _of_text("" if value is None else str(value), name=name, where=where, system=system)


def _unwrapped(text: str) -> Any:
    """The JSON object or list in a text, or the text."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (dict, list)) else text


def _with_fields(
    fields: Mapping[str, Any], body: str, *, name: str, where: str, system: str
) -> Trajectory:
    inner = fields[body]
    if isinstance(inner, Mapping):
        inner = json.dumps(inner, ensure_ascii=False)
    trajectory = (
        _of_list(inner, name=name, where=where, system=system)
        if isinstance(inner, list)
        else _of_text(str(inner or ""), name=name, where=where, system=system)
    )
    around = fields.keys() - {body}
    labels = {key: fields[key] for key in sorted(around - HEADER)}
    about = trajectory.about
    about["labels"] = {**about.get("labels", {}), **labels}
    about["task"] = task_of(dict(fields)) or about.get("task", "")
    about["accounting"] = merged(
        about["accounting"], header=len(around) - len(labels), labels=len(labels)
    )
    return trajectory


def _of_list(items: list[Any], *, name: str, where: str, system: str) -> Trajectory:
    if items and all(isinstance(item, str) for item in items):
        return _of_text("\n".join(items), name=name, where=where, system=system)
    events, problems = ag2.chat_events(items, where=where)
    about = {
        "records": list(ag2.RECORDS),
        "task": events[0].content if events else "",
        "roles": ag2.roles_of(events),
        "labels": {},
        "log": ag2.NAME,
        "accounting": account("element", events=len(items)),
    }
    return Trajectory(name, about, events, problems)


def _of_text(text: str, *, name: str, where: str, system: str) -> Trajectory:
    known = system_name(system)
    log, log_name = segment(text, _SEGMENTERS.get(known, known))
    trajectory = log.trajectory(name, where=where)
    trajectory.about["log"] = log_name
    return trajectory


# --- one trace as a file --------------------------------------------------------------------------


def _recognises(source: Source) -> bool:
    document = source.document
    if not isinstance(document, dict):
        return False
    inner = document.get("trajectory")
    if isinstance(inner, list) and inner:
        named = [isinstance(item, str) or ag2.speaks(item) for item in inner]
        return all(named) and bool(document.keys() & HEADER)
    return isinstance(document.get("content"), str) and "prompt" in document


def _load(source: Source) -> Trajectory:
    document = source.document
    if not isinstance(document, dict) or not any(key in document for key in BODY):
        reason = source.flaw or "a trace of the MAST data is a JSON object with a `trajectory`"
        raise TraceError(source.path, reason)
    name = document.get("instance_id") or document.get("run_id") or Path(source.path).stem
    return trace_of(document, name=str(name), where=str(source.path))


def open_code_labels(labels: Mapping[str, Any]) -> Iterable[Labels]:
    """What the annotator's note in a trace says, in the study's open codes."""
    note = labels.get("note")
    options = note.get("options") if isinstance(note, dict) else None
    if not isinstance(options, dict) or not options:
        return
    known = {}
    for code, answer in options.items():
        try:
            OPEN_CODES.resolve(code)
        except UnknownName:
            continue
        known[code] = answer
    text = note.get("text") if isinstance(note, dict) else ""
    yield Labels(
        annotator="open codes",
        findings=read_coded(known, OPEN_CODES, source="open codes").findings,
        outcome=_outcome(labels),
        note="\n".join(map(str, text)) if isinstance(text, list) else str(text or ""),
    )


def _outcome(labels: Mapping[str, Any]) -> bool | None:
    other = labels.get("other_data")
    correct = other.get("correct") if isinstance(other, dict) else None
    return correct if isinstance(correct, bool) else None


FORMAT = Format(
    NAME,
    "a trace of the MAST study (JSON)",
    _recognises,
    _load,
    (".json",),
    labels=lambda trajectory: open_code_labels(trajectory.about["labels"]),
)
