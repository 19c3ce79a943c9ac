"""Text logs as files: one format for each kind of log in `logs`, and plain text as the last one.

A kind is recognised by its mark in the first part of the file. Bytes that are no UTF-8 are read as
the replacement character, which `about["warnings"]` says.
"""

from __future__ import annotations

from collections.abc import Callable

from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.logs import SEGMENTERS, Log, plain
from rolecraft.trajectories.trajectory import Trajectory

LOOKED_AT = 300_000
"""So many characters of a file are searched for the mark of its kind."""


def _format(
    name: str, description: str, recognises: Callable[[str], bool], segment: Callable[[str], Log]
) -> Format:
    def load(source: Source) -> Trajectory:
        log = segment(source.text)
        if source.replaced:
            log.warnings.append(f"{source.replaced} bytes are no UTF-8 and were replaced")
        return log.trajectory(source.path.stem, where=str(source.path))

    def fits(source: Source) -> bool:
        return b"\0" not in source.head and recognises(source.text[:LOOKED_AT])

    return Format(name, description, fits, load, (".log",))


def _marked(name: str) -> Format:
    known = SEGMENTERS[name]

    def recognises(text: str) -> bool:
        return known.fits(text)

    return _format(name, f"{known.description} (text)", recognises, known.segment)


LOGS = tuple(_marked(name) for name in SEGMENTERS if name != "ag2_dump")
"""The formats of systems whose logs are known, in the order in which they are tried."""

TEXT = _format(
    plain.NAME, "a transcript as plain text, `Speaker: text`", plain.is_transcript, plain.segment
)
"""What is tried last, and can always be stated."""
