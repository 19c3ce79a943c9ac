"""MAST-Data (MAD): `MAD_full_dataset.json` and `MAD_human_labelled_dataset.json`, lists of records.

Invariant: a record is a trace. What its annotators say (`annotations`, `mast_annotation`), what the
trace itself says about them (an annotator's `note`) and about the outcome (`other_data`) is in
`about["labels"]` and nowhere else.

- The trace is split by the system in `mas_name` (`mast_trace`).
- The human-labelled file gives one set of labels for each annotator, in the code system of its
  round; the judge-labelled one gives the labels of its judge, `o1`.
- A record's id is `mas-benchmark-round-trace_id` as far as the record has them, with a number
  behind it where two records would have the same: `trace_id` alone does not tell them apart.
- Some records have `mas_name` and `benchmark_name` swapped; they are swapped back.
- `NaN`, which is no JSON, is read as no answer.

What is odd about a record without touching its trace is in `about["warnings"]`: swapped names, a
trace or labels that an earlier record has word for word, answers that are none, and labels that do
not fit the codes of their round, which are left out then.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from rolecraft.errors import RolecraftError, TraceError
from rolecraft.failure_taxonomy.codes import MAD_FULL, read_coded, system_for_mad_record
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.lines import merged
from rolecraft.failure_taxonomy.formats.mast_trace import (
    open_code_labels,
    system_name,
    trace_of,
)
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.trajectories.trajectory import Trajectory

NAME = "mad"
SYSTEMS = frozenset(
    {"ag2", "appworld", "chatdev", "hyperagent", "magentic", "magenticone", "metagpt", "openmanus"}
)
"""The systems of the data, as `system_name` writes them."""
_HEADER = ("round", "mas_name", "benchmark_name", "llm_name", "trace_id")
_JUDGE = "o1"
"""Who made `mast_annotation`; the labels are not human."""


def is_record(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "mas_name" in value
        and "trace" in value
        and ("annotations" in value or "mast_annotation" in value)
    )


def _recognises(source: Source) -> bool:
    document = source.document
    records = document if isinstance(document, list) else [document]
    return bool(records) and all(map(is_record, records[:5]))


def _load(source: Source) -> Iterator[Trajectory]:
    document = source.document
    records = document if isinstance(document, list) else [document]
    if document is None or not all(isinstance(record, dict) for record in records):
        raise TraceError(source.path, source.flaw or "MAST-Data is a JSON list of records")
    names: Counter[str] = Counter()
    seen: dict[bytes, str] = {}
    for record in records:
        name = _name(record)
        names[name] += 1
        if names[name] > 1:
            name = f"{name}-{names[name]}"
        trajectory = record_trace(record, name=name, where=f"{source.path}#{name}")
        _warn_of_copies(trajectory, record, seen)
        yield trajectory


def _warn_of_copies(
    trajectory: Trajectory, record: Mapping[str, Any], seen: dict[bytes, str]
) -> None:
    """Say which parts of a record stand in an earlier one as well."""
    for field, what in (("trace", "its trace is that"), ("annotations", "its labels are those")):
        if not record.get(field):
            continue
        text = field + json.dumps(record[field], ensure_ascii=True, sort_keys=True, default=str)
        first = seen.setdefault(blake2b(text.encode()).digest(), trajectory.id)
        if first != trajectory.id:
            _warn(trajectory, f"{what} of {first}, word for word")


def _warn(trajectory: Trajectory, what: str) -> None:
    """Say it once: labels may be asked for as often as one likes."""
    warnings = trajectory.about.setdefault("warnings", [])
    if what not in warnings:
        warnings.append(what)


def record_trace(record: Mapping[str, Any], *, name: str, where: str) -> Trajectory:
    """The trajectory of a record."""
    header, warnings = _header(record)
    trace = record.get("trace")
    inner = trace.get("trajectory") if isinstance(trace, Mapping) else trace
    outer = dict(trace) if isinstance(trace, Mapping) else {}
    outer.pop("trajectory", None)
    trajectory = trace_of(inner, name=name, where=where, system=str(header.get("mas_name") or ""))
    about = trajectory.about
    about["mad"] = header | ({"key": outer["key"]} if "key" in outer else {})
    others = {key: value for key, value in record.items() if key not in (*_HEADER, "trace")}
    about["labels"] = about["labels"] | {"mad_round": header.get("round")} | others
    if warnings:
        about["warnings"] = [*about.get("warnings", ()), *warnings]
    about["accounting"] = merged(
        about["accounting"], header=len(record) - len(others) - 1 + len(outer), labels=len(others)
    )
    return trajectory


def _name(record: Mapping[str, Any]) -> str:
    header, _ = _header(record)
    trace = record.get("trace")
    key = trace.get("key") if isinstance(trace, Mapping) else None
    parts = [key] if key else [header.get("mas_name"), header.get("benchmark_name")]
    parts += [header.get("round"), header.get("trace_id")]
    return "-".join(str(part).replace(" ", "_") for part in parts if part is not None)


def _header(record: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    header = {key: record[key] for key in _HEADER if key in record}
    warnings = []
    mas, benchmark = str(header.get("mas_name")), str(header.get("benchmark_name"))
    if system_name(mas) not in SYSTEMS and system_name(benchmark) in SYSTEMS:
        header |= {"mas_name": benchmark, "benchmark_name": mas}
        warnings.append(f"`mas_name` {mas!r} and `benchmark_name` {benchmark!r} were swapped")
    return header, warnings


# --- labels ---------------------------------------------------------------------------------------


def record_labels(trajectory: Trajectory) -> Iterator[Labels]:
    """The labels of a record, one set an annotator."""
    said = trajectory.about["labels"]
    people = list(_by_people(said))
    yield from people
    codes = said.get("mast_annotation")
    if isinstance(codes, Mapping) and codes:
        yield Labels(annotator=_JUDGE, findings=read_coded(codes, MAD_FULL, source=_JUDGE).findings)
    if not people:  # the open codes are of an earlier round, by other rules
        yield from open_code_labels(said)


def _by_people(said: Mapping[str, Any]) -> Iterator[Labels]:
    rows = said.get("annotations")
    if not isinstance(rows, list):
        return
    rows = [row for row in rows if isinstance(row, Mapping) and row.get("failure mode")]
    texts = [str(row["failure mode"]) for row in rows]
    system = system_for_mad_record(str(said.get("mad_round") or ""), texts)
    people = dict.fromkeys(key for row in rows for key in row if key != "failure mode")
    for person in people:
        answers = {text: _answer(row.get(person)) for text, row in zip(texts, rows, strict=True)}
        if any(answer is not None for answer in answers.values()):
            yield Labels(
                annotator=person, findings=read_coded(answers, system, source=person).findings
            )


def _answer(given: Any) -> Any:
    """`NaN` is no answer."""
    return None if isinstance(given, float) and given != given else given


def _labels(trajectory: Trajectory) -> list[Labels]:
    rows = trajectory.about["labels"].get("annotations")
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    cells = [cell for row in rows for cell in row.values()]
    none = sum(isinstance(cell, float) and cell != cell for cell in cells)
    if none:
        _warn(trajectory, f"{none} answers are `NaN`, which is no JSON: read as no answer")
    try:
        return list(record_labels(trajectory))
    except RolecraftError as error:
        _warn(trajectory, f"its labels cannot be read and are left out: {error}")
        return []


FORMAT = Format(
    NAME,
    "MAST-Data, judge- or human-labelled (JSON)",
    _recognises,
    _load,
    (".json",),
    labels=_labels,
)
