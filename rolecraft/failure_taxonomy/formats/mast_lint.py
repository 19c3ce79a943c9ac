"""Runs of mast-lint: `raw_ag2_records….json`, with labels in `gold_labels….json` beside them.

The records have the form of MAST-Data's human-labelled file without annotations. The labels are
one assisted annotator's: for each run, a list of the modes that are present, in mast-lint's codes
(`FM-3.2`). They are read if the file is there, and kept in `about["labels"]`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.codes import MAST_LINT, read_coded
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.mad import record_trace
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.trajectories.trajectory import Trajectory

NAME = "mast_lint"


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and {"trace_id", "mas_name", "trace"} <= value.keys()


def _recognises(source: Source) -> bool:
    document = source.document
    return isinstance(document, list) and bool(document) and all(map(_is_record, document))


def _load(source: Source) -> Iterator[Trajectory]:
    document = source.document
    if not isinstance(document, list) or not all(map(_is_record, document)):
        reason = source.flaw or "mast-lint's runs are a JSON list of records with a `trace`"
        raise TraceError(source.path, reason)
    gold = _gold(source.path)
    for record in document:
        name = str(record["trace_id"])
        trajectory = record_trace(record, name=name, where=f"{source.path}#{name}")
        said = gold.get("labels", {})
        if isinstance(said, dict) and name in said:
            trajectory.about["labels"]["gold"] = {"modes": gold.get("modes"), **said[name]}
        yield trajectory


def _gold(path: Path) -> dict[str, Any]:
    """The labels beside `raw_ag2_records_batch2.json`: those of `gold_labels_batch2.json`."""
    beside = path.with_name(path.name.replace("raw_ag2_records", "gold_labels"))
    if beside == path or not beside.is_file():
        return {}
    try:
        gold = json.loads(beside.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise TraceError(beside, f"the labels of `{path.name}` cannot be read: {error}") from error
    return gold if isinstance(gold, dict) else {}


def _runs_of(path: Path) -> Path | None:
    """The runs that a file of labels is about, if it is one and they are beside it."""
    runs = path.with_name(path.name.replace("gold_labels", "raw_ag2_records"))
    return runs if runs != path and runs.is_file() else None


def _labels(trajectory: Trajectory) -> list[Labels]:
    gold = trajectory.about["labels"].get("gold")
    if not isinstance(gold, dict) or not isinstance(gold.get("present"), list):
        return []
    asked = gold.get("modes") or list(MAST_LINT.concepts)
    answers = {str(code): code in gold["present"] for code in asked}
    findings = read_coded(answers, MAST_LINT, source=NAME).findings
    return [Labels(annotator=NAME, findings=findings, note=str(gold.get("notes") or ""))]


FORMAT = Format(
    NAME,
    "runs of mast-lint, with labels beside them (JSON)",
    _recognises,
    _load,
    (".json",),
    _labels,
    belongs_to=_runs_of,
)
