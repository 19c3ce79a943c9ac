"""Where traces come from: the formats that can be read, and how a file's format is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rolecraft.errors import TraceError, UnknownName, UsageError
from rolecraft.failure_taxonomy.formats import (
    ag2,
    agentrx,
    journal,
    langfuse,
    langsmith,
    mad,
    mast_lint,
    mast_trace,
    metagpt_team,
    openai_messages,
    openinference,
    otel,
    text_logs,
    who_and_when,
)
from rolecraft.failure_taxonomy.formats.base import Format, Imported, Source
from rolecraft.failure_taxonomy.formats.mapping_file import load_mapping
from rolecraft.trajectories.trajectory import Trajectory

__all__ = [
    "FORMATS",
    "Format",
    "Imported",
    "Source",
    "load_mapping",
    "read",
    "read_all",
    "recognise",
    "register_format",
    "trace_files",
]

FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        journal.FORMAT,
        who_and_when.FORMAT,
        mad.FORMAT,
        mast_lint.FORMAT,
        mast_trace.FORMAT,
        metagpt_team.FORMAT,
        ag2.FORMAT,
        agentrx.FORMAT,
        langsmith.FORMAT,
        langfuse.FORMAT,
        openinference.FORMAT,
        otel.FORMAT,
        openai_messages.FORMAT,
        *text_logs.LOGS,
        text_logs.TEXT,
    )
}
"""The known formats by name, in the order in which they are tried."""


def register_format(added: Format) -> None:
    """Make a further format known: it is tried before the others.

    Raises `UsageError` if its name is taken.
    """
    if added.name in FORMATS:
        raise UsageError(f"A format named {added.name!r} is known already; take another name.")
    others = dict(FORMATS)
    FORMATS.clear()
    FORMATS.update({added.name: added, **others})


def recognise(path: Path | str) -> str:
    """The name of a file's format. Raises `TraceError`, with the known formats, if it has none."""
    return _find(Source(path)).name


def read(path: Path | str, *, format: str | None = None) -> Trajectory:  # noqa: A002
    """The trajectory in a file, of the stated format or of the one that is recognised.

    Raises `TraceError` for a file that is missing, empty, broken, of no known format or with
    several traces (`read_all` gives them), and `UnknownName` for a format that does not exist.
    What could not be read of a file that as a whole can be is listed in the trajectory's
    `problems`.
    """
    found = list(read_all(path, format=format))
    if len(found) > 1:
        raise TraceError(
            path,
            f"it holds {len(found)} traces; `annotate_many` takes them all, `formats.read_all` "
            "gives them one by one",
        )
    return found[0].trajectory


def read_all(path: Path | str, *, format: str | None = None) -> Iterator[Imported]:  # noqa: A002
    """The traces in a file, one or more, each with its name and the labels it came with.

    Raises what `read` raises, except that a file may hold several traces.
    """
    if format is not None and format not in FORMATS:
        raise UnknownName("Format", format, FORMATS)
    source = Source(path)
    chosen = _find(source) if format is None else FORMATS[format]
    loaded = chosen.load(source)
    if isinstance(loaded, Trajectory):
        yield _imported(loaded, str(path), chosen, path)
        return
    empty = True
    for trajectory in loaded:
        empty = False
        yield _imported(trajectory, f"{path}#{trajectory.id}", chosen, path)
    if empty:
        raise TraceError(path, "there are no traces in it: nothing to annotate")


def _imported(trajectory: Trajectory, name: str, chosen: Format, path: Path | str) -> Imported:
    if not trajectory.events:
        where = name.removeprefix(str(path))
        raise TraceError(path, f"there are no events in it{where}: nothing to annotate")
    trajectory.about.setdefault("format", chosen.name)
    labels = () if chosen.labels is None else chosen.labels(trajectory)
    return Imported(name, trajectory, tuple(replace(row, trace=name) for row in labels))


def trace_files(path: Path | str) -> list[Path]:
    """The file itself, or the files below a folder that may be traces, `2.json` before `10.json`.

    A file that is read with the one beside it, as labels of its runs, is none. Raises `TraceError`
    if there are none.
    """
    from rolecraft.trajectories.jsonl import trace_files

    endings = {end for known in FORMATS.values() for end in known.suffixes}
    found = trace_files(path, suffixes=sorted(endings))
    return found if Path(path).is_file() else [file for file in found if not _belongs_to(file)]


def _belongs_to(file: Path) -> Path | None:
    asked = (known.belongs_to(file) for known in FORMATS.values() if known.belongs_to is not None)
    return next((other for other in asked if other is not None), None)


def _find(source: Source) -> Format:
    assert source.head  # raises for a file that is missing or empty
    for known in FORMATS.values():
        if known.recognises(source):
            return known
    misfits = [(known.name, known.misfit(source)) for known in FORMATS.values() if known.misfit]
    if misfits:
        told = "; ".join(f"the mapping `{name}` does not fit: {why}" for name, why in misfits)
        raise TraceError(source.path, f"{told}. Nor is it of another known format")
    other = _belongs_to(source.path)
    if other is not None:
        raise TraceError(source.path, f"it belongs to `{other}` and is read with that")
    listed = "; ".join(f"`{known.name}`, {known.description}" for known in FORMATS.values())
    flaw = f" As JSON: {source.flaw}." if source.flaw else ""
    raise TraceError(
        source.path,
        f"its format is not known.{flaw} A mapping can say which of its fields means what "
        f"(`load_mapping`, `--mapping`).",
        listed=f" Known formats: {listed}.",
    )
