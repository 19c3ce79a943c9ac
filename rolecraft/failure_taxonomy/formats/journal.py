"""Our own journals: one JSON line an event, the header first."""

from __future__ import annotations

import json

from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.trajectories.trajectory import Trajectory

NAME = "rolecraft"


def _recognises(source: Source) -> bool:
    first = source.head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    try:
        header = json.loads(first)
    except (ValueError, RecursionError):
        # A header of more bytes than were read, or a broken one: its beginning must do.
        return b'"schema_version"' in first[:200] and b'"trajectory"' in first[:200]
    return isinstance(header, dict) and "schema_version" in header and "trajectory" in header


def _load(source: Source) -> Trajectory:
    from rolecraft.trajectories.jsonl import load

    return load(source.path)


FORMAT = Format(
    NAME, "a journal that a Rolecraft run wrote (JSON lines)", _recognises, _load, (".jsonl",)
)
