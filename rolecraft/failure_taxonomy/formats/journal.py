"""Our own journals: one JSON line an event, the header first."""

from __future__ import annotations

import json
from typing import Any

from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.lines import account
from rolecraft.trajectories.trajectory import Trajectory

NAME = "rolecraft"


LINES = 20
"""So many lines are looked at: the first ones may be broken, and the others still count."""


def _recognises(source: Source) -> bool:
    lines = source.head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return any(map(_is_ours, lines[:LINES]))


def _is_ours(line: bytes) -> bool:
    """True for a header or an event."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        # A header that is longer than what was read, or that was cut off: its beginning must do.
        return line.startswith(b'{"schema_version":') and b'"trajectory":' in line[:200]
    if not isinstance(record, dict):
        return False
    return {"schema_version", "trajectory"} <= record.keys() or {"seq", "kind"} <= record.keys()


def _load(source: Source) -> Trajectory:
    from rolecraft.trajectories.jsonl import load

    trajectory = load(source.path)
    trajectory.about["accounting"] = _account(source, len(trajectory.events))
    return trajectory


def _account(source: Source, events: int) -> dict[str, Any]:
    """Every line is the header, an event, empty, or could not be read."""
    header = blank = filled = 0
    with source.path.open("rb") as file:
        for line in file:
            if not line.strip():
                blank += 1
                continue
            filled += 1
            if filled == 1:
                header = int(_is_header(line))
    lost = max(filled - header - events, 0)
    return account("line", events=events, header=header, blank=blank, unsegmented=lost)


def _is_header(line: bytes) -> bool:
    try:
        record = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"schema_version", "trajectory"} <= record.keys()


FORMAT = Format(
    NAME, "a journal that a Rolecraft run wrote (JSON lines)", _recognises, _load, (".jsonl",)
)
