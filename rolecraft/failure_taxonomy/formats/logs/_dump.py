"""The fields of a MAST trace, as they stand around its log.

The MAST data keep a trace as JSON, or as the same written out with a line `key:` at the left
margin before each field and its value indented below. A few fields are known to describe the
run; everything else (`note`, `other_data`, whatever is new) may hold labels or the outcome and is
kept with the labels.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy.formats.logs._log import Log

TASK = ("problem_statement", "prompt")
BODY = ("trajectory", "content")
HEADER = frozenset(
    {"instance_id", "run_id", "timestamp", "log_file", "cost", "key", "index", *TASK}
)
"""Fields that say nothing about failures or the outcome."""

_FIELD = re.compile(
    r"(?P<key>instance_id|problem_statement|other_data|trajectory|note|annotations|ground_truth"
    r"|is_correct|reward|prompt|run_id):(?P<rest>.*)"
)

_OPTION = re.compile(r"^[ \t]*(?P<code>[A-Z][^:\n]*):[ \t]*['\"]?(?P<answer>yes|no)\b", re.M)


def take_fields(log: Log) -> tuple[int, int]:
    """Account for the fields written out around a log; the log's own first line and end."""
    lines = log.lines.lines
    top = next((line for line in lines if line.strip()), "")
    if not _FIELD.match(top) or not any(line.startswith("trajectory:") for line in lines):
        return 0, len(lines)
    starts = [(at, match) for at, line in enumerate(lines) if (match := _FIELD.match(line))]
    stops = [at for at, _ in starts[1:]] + [len(lines)]
    first, end = len(lines), len(lines)
    for (at, match), stop in zip(starts, stops, strict=True):
        key, rest = match["key"], match["rest"].strip()
        if key == "trajectory":
            log.skip("header", at, at + 1)
            first, end = at + 1, stop
            continue
        text = "\n".join([rest, *(line.strip() for line in lines[at + 1 : stop])]).strip()
        if key in TASK:
            log.task = log.task or text
        if key in HEADER:
            log.skip("header", at, stop)
        else:
            log.skip("labels", at, stop)
            log.labels[key] = _note(text) if key == "note" else text
    return first, end


def _note(text: str) -> dict[str, Any]:
    """An annotator's note that was written out: its text, and its answers under codes."""
    options = {match["code"].strip(): match["answer"] for match in _OPTION.finditer(text)}
    return {"text": text, "options": options}


def task_of(fields: dict[str, Any]) -> str:
    """The task in the fields of a trace: a text, or a list of its lines."""
    for key in TASK:
        value = fields.get(key)
        if isinstance(value, list):
            return "\n".join(map(str, value))
        if value:
            return str(value)
    return ""
