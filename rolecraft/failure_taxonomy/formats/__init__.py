"""Where traces come from: the formats that can be read, and how a file's format is found."""

from __future__ import annotations

from pathlib import Path

from rolecraft.errors import TraceError, UnknownName, UsageError
from rolecraft.failure_taxonomy.formats import journal, who_and_when
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.trajectories.trajectory import Trajectory

__all__ = ["FORMATS", "Format", "Source", "read", "recognise", "register_format", "trace_files"]

FORMATS: dict[str, Format] = {f.name: f for f in (journal.FORMAT, who_and_when.FORMAT)}
"""The known formats by name, in the order in which they are tried."""


def register_format(added: Format) -> None:
    """Make a further format known. Raises `UsageError` if its name is taken."""
    if added.name in FORMATS:
        raise UsageError(f"A format named {added.name!r} is known already; take another name.")
    FORMATS[added.name] = added


def recognise(path: Path | str) -> str:
    """The name of a file's format. Raises `TraceError`, with the known formats, if it has none."""
    return _find(Source(path)).name


def read(path: Path | str, *, format: str | None = None) -> Trajectory:  # noqa: A002
    """The trajectory in a file, of the stated format or of the one that is recognised.

    Raises `TraceError` for a file that is missing, empty, broken or of no known format, and
    `UnknownName` for a format that does not exist. What could not be read of a file that as a
    whole can be is listed in the trajectory's `problems`.
    """
    if format is not None and format not in FORMATS:
        raise UnknownName("Format", format, FORMATS)
    source = Source(path)
    chosen = _find(source) if format is None else FORMATS[format]
    trajectory = chosen.load(source)
    if not trajectory.events:
        raise TraceError(path, "there are no events in it: nothing to annotate")
    trajectory.about.setdefault("format", chosen.name)
    return trajectory


def trace_files(path: Path | str) -> list[Path]:
    """The file itself, or the files below a folder that may be traces, `2.json` before `10.json`.

    Raises `TraceError` if there are none.
    """
    from rolecraft.trajectories.jsonl import trace_files

    endings = {end for known in FORMATS.values() for end in known.suffixes}
    return trace_files(path, suffixes=sorted(endings))


def _find(source: Source) -> Format:
    assert source.head  # raises for a file that is missing or empty
    for known in FORMATS.values():
        if known.recognises(source):
            return known
    listed = "; ".join(f"`{known.name}`, {known.description}" for known in FORMATS.values())
    flaw = f" As JSON: {source.flaw}." if source.flaw else ""
    raise TraceError(source.path, f"its format is not known.{flaw} Known formats: {listed}.")
