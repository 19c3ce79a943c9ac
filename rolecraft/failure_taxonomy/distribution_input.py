"""Labelled traces: what is said about each trace, and what the trace says of its own origin.

Labels files are taken as they are. A data set's own labels are taken where it has labels of modes;
any other trace is looked at by the detectors. Invariant: a trace counts once; where several
annotators labelled it, with what most of them say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rolecraft.errors import TraceError, UnknownName, UsageError
from rolecraft.failure_taxonomy.annotate import annotate
from rolecraft.failure_taxonomy.formats import Imported, read_all, trace_files
from rolecraft.failure_taxonomy.labels import Labels, is_label_file, read_labels
from rolecraft.trajectories.trajectory import Trajectory

UNSTATED = "(not stated)"
"""The group of traces that do not say to which they belong."""

GROUPINGS = ("system", "model", "scenario", "format", "folder", "annotator")
"""By what traces can be grouped."""


@dataclass(frozen=True, slots=True)
class LabelledTrace:
    """One trace with its labels. `origin` has what is known of the groupings."""

    labels: Labels
    origin: Mapping[str, str] = field(default_factory=dict)

    def group(self, by: str) -> str:
        """The group in a grouping. Raises `UnknownName` for a grouping that there is not."""
        if by not in GROUPINGS:
            raise UnknownName("Grouping", by, GROUPINGS)
        if by == "annotator":
            return self.labels.annotator or UNSTATED
        return self.origin.get(by) or UNSTATED


async def labelled_traces(
    paths: Iterable[Path | str] | Path | str,
    *,
    annotator: str | None = None,
    format: str | None = None,  # noqa: A002 - the word that users know
    on_error: Callable[[TraceError], None] | None = None,
) -> list[LabelledTrace]:
    """The traces in files and folders, of labels or of traces, with their labels.

    `annotator` chooses whose labels count where there are several; otherwise the majority does.
    `format` is that of files of traces, which is recognised otherwise. Files that cannot be read
    go to `on_error`, where it is given; otherwise, and if nothing at all can be read, `TraceError`
    is raised. Raises `UsageError` for a trace that one annotator labelled twice.
    """
    listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
    files = [file for path in listed for file in trace_files(path)]
    found: list[LabelledTrace] = []
    last: TraceError | None = None
    labelled: set[str] = set()
    for are_labels in (True, False):  # what is labelled in a file is not looked at again
        for file in (file for file in files if is_label_file(file) == are_labels):
            try:
                found += (
                    _of_labels(file, labelled)
                    if are_labels
                    else await _of_file(file, labelled, format)
                )
            except TraceError as error:
                last = error
                if on_error is None:
                    raise
                on_error(error)
    if annotator is not None:
        names = {row.labels.annotator for row in found}
        found = [row for row in found if row.labels.annotator == annotator]
        if not found and names:
            raise UnknownName("Annotator", annotator, names)
    if not found:
        raise last or TraceError(listed[0] if listed else ".", "there are no labels or traces")
    return _one_each(found)


def _one_each(found: list[LabelledTrace]) -> list[LabelledTrace]:
    """One row a trace: of several annotators what most of them say."""
    from rolecraft.failure_taxonomy.agreement.raters import majority

    by: dict[str, list[LabelledTrace]] = {}
    for row in found:
        by.setdefault(row.labels.trace, []).append(row)
    for trace, rows in by.items():
        names = [row.labels.annotator for row in rows]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(
                f"Trace {trace!r} has labels of {twice or 'somebody unnamed'!r} twice: give each "
                "trace once."
            )
    return [
        rows[0]
        if len(rows) == 1
        else LabelledTrace(majority([row.labels for row in rows]), rows[0].origin)
        for rows in by.values()
    ]


def _of_labels(file: Path, labelled: set[str]) -> list[LabelledTrace]:
    origins: dict[str, dict[str, str]] = {}
    rows = read_labels(file)
    for row in rows:
        there = next(_there(row.trace, file), None)
        if there is not None and row.findings:
            labelled.add(_place(there, row.trace))
    return [LabelledTrace(row, _origin_of(row.trace, file, origins)) for row in rows]


async def _of_file(
    file: Path,
    labelled: set[str],
    form: str | None,
) -> list[LabelledTrace]:
    rows: list[LabelledTrace] = []
    for imported in read_all(file, format=form):
        origin = origin_of(imported.trajectory, imported.name)
        said = [row for row in imported.labels if row.findings]
        rows += [LabelledTrace(row, origin) for row in said]
        if not said and _place(file, imported.name) not in labelled:
            rows.append(LabelledTrace(await _detected(imported), origin))
    return rows


def _place(file: Path, trace: str) -> str:
    """A trace by where it is, whatever folder it was named from."""
    return f"{file.resolve()}#{trace.partition('#')[2]}"


def _there(trace: str, labels: Path) -> Iterator[Path]:
    """Where the file of a trace may be that a labels file names, the likeliest first."""
    path = trace.partition("#")[0]
    for candidate in (Path(path), labels.parent / path, labels.parent / Path(path).name):
        if candidate.is_file() and candidate.resolve() != labels.resolve():
            yield candidate


async def _detected(imported: Imported) -> Labels:
    report = await annotate(imported)
    labels = Labels.from_dict(report.to_dict())
    return replace(labels, trace=imported.name, outcome=_outcome(imported))


def _outcome(imported: Imported) -> bool | None:
    return next((row.outcome for row in imported.labels if row.outcome is not None), None)


def origin_of(trajectory: Trajectory, name: str = "") -> dict[str, str]:
    """What a trajectory's header says of system, model and scenario.

    A run of ours is of its scenario, or else of the name that it was recorded under.
    """
    about = trajectory.about
    mad = about.get("mad") if isinstance(about.get("mad"), Mapping) else {}
    models: dict[str, None] = {}
    for role in about["roles"] if isinstance(about.get("roles"), list) else ():
        if isinstance(role, Mapping) and isinstance(role.get("model"), str):
            models.setdefault(role["model"])
    for event in trajectory.of("model_call"):
        if isinstance(event.data.get("model"), str):
            models.setdefault(event.data["model"])
    scenario = _first(about, "scenario") or _first(mad, "benchmark_name") or _family(about)
    kind = _first(about, "format") or "rolecraft"
    own = scenario or re.sub(r"-\d+$", "", trajectory.id)
    found = {
        "system": _first(mad, "mas_name")
        or _first(about, "system", "workflow", "log")
        or (own if kind == "rolecraft" else kind),
        "model": _first(mad, "llm_name") or _first(about, "model") or ", ".join(models),
        "scenario": scenario,
        "format": kind,
        "folder": _folder(name),
    }
    return {key: value for key, value in found.items() if value}


def _first(fields: Any, *names: str) -> str:
    for name in names:
        value = fields.get(name) if isinstance(fields, Mapping) else None
        if isinstance(value, Mapping):
            value = value.get("name")
        if isinstance(value, str) and value:
            return value
    return ""


def _family(about: Mapping[str, Any]) -> str:
    """The family of a task of ours: the beginning of its id, `relay` of `relay-train-17`."""
    task = about.get("task")
    name = task.get("id") if isinstance(task, Mapping) else None
    return re.split(r"[-/]", name)[0] if isinstance(name, str) else ""


def _folder(name: str) -> str:
    parent = Path(name.partition("#")[0]).parent
    return parent.name or "."


def _origin_of(trace: str, file: Path, known: dict[str, dict[str, str]]) -> dict[str, str]:
    """The origin of a trace that a labels file names, if the trace is still there."""
    path, _, part = trace.partition("#")
    if path not in known:
        known[path] = {}
        for candidate in _there(trace, file):
            try:
                for imported in read_all(candidate):
                    origin = origin_of(imported.trajectory, trace)
                    known[f"{path}#{imported.trajectory.id}"] = origin
                    known[path] = known[path] or origin
            except TraceError:
                continue
            break
    found = known.get(f"{path}#{part}") or known[path] if part else known[path]
    return {"folder": _folder(trace), **found}
