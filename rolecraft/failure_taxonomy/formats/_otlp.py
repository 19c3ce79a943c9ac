"""The spans of OpenTelemetry as files hold them, before anybody says what they mean.

Three writings are read: OTLP/JSON (`resourceSpans`, one object a line, as the collector's file
exporter writes it), the SDK's `span.to_json()` and `ConsoleSpanExporter`, and Phoenix's exports (a
span a line, or its table of spans as JSON). Log records that belong to a span (`resourceLogs`) are
added to it as events. Attributes are flat, their names dotted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rolecraft.failure_taxonomy.formats._said import as_text


@dataclass(slots=True)
class Happening:
    """An event on a span, or a log record that belongs to one."""

    name: str
    attributes: dict[str, Any]


@dataclass(slots=True)
class RawSpan:
    """A span with flat attributes."""

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    begin: int | None = None
    end: int | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[Happening] = field(default_factory=list)
    failed: bool = False
    message: str = ""
    """The text of its status."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What Phoenix keeps beside a span: annotations, evaluations."""

    @property
    def error(self) -> tuple[str, str]:
        """Type and text of what went wrong; ("", "") if nothing did."""
        for event in self.events:
            if event.name == "exception" and (self.failed or "error.type" in self.attributes):
                said = event.attributes
                kind = as_text(said.get("exception.type")) or "exception"
                return kind, as_text(said.get("exception.message")) or self.message
        if "error.type" in self.attributes:
            return as_text(self.attributes["error.type"]) or "error", self.message
        return ("error", self.message) if self.failed else ("", "")


def get(value: Any, *names: str) -> Any:
    """The first of these fields that an object has."""
    if not isinstance(value, Mapping):
        return None
    return next((value[name] for name in names if value.get(name) is not None), None)


def is_span_file(first: Any) -> bool:
    """True if a file's first value looks like spans of OpenTelemetry or Phoenix."""
    if not isinstance(first, dict):
        return False
    if any(name in first for name in ("resourceSpans", "resource_spans", "resourceLogs")):
        return True
    if "attributes" in first and _ids(first)[1] and "name" in first:
        return True
    return any(key.startswith("context.span_id") for key in first)


def raw_spans(records: list[Any]) -> tuple[list[RawSpan], int]:
    """The spans of a file and the number of records that are none."""
    found: list[RawSpan] = []
    logs: list[tuple[str, str, Happening]] = []
    odd = 0
    for record in _rows(records):
        if not isinstance(record, dict):
            odd += 1
        elif get(record, "resourceSpans", "resource_spans") is not None:
            for span in _deep(record, ("resourceSpans", "resource_spans"), "spans"):
                read = _span(span)
                odd += read is None
                if read is not None:
                    found.append(read)
        elif get(record, "resourceLogs", "resource_logs") is not None:
            for log in _deep(record, ("resourceLogs", "resource_logs"), "logRecords"):
                read_log = _log(log)
                odd += read_log is None
                if read_log is not None:
                    logs.append(read_log)
        elif "resourceMetrics" not in record:
            read = _span(record)
            odd += read is None
            if read is not None:
                found.append(read)
    by_id = {(span.trace, span.id): span for span in found}
    for trace, name, happening in logs:
        owner = by_id.get((trace, name))
        if owner is None:
            odd += 1
        else:
            owner.events.append(happening)
    return found, odd


def _rows(records: list[Any]) -> Iterator[Any]:
    """The records; a table that was written column by column is turned."""
    first = records[0] if records else None
    columns = isinstance(first, dict) and "name" in first and isinstance(first["name"], dict)
    if len(records) != 1 or not isinstance(first, dict) or not columns:
        yield from records
        return
    table = {key: column for key, column in first.items() if isinstance(column, dict)}
    for row in dict.fromkeys(row for column in table.values() for row in column):
        yield {key: column.get(row) for key, column in table.items()}


def _deep(record: Mapping[str, Any], names: tuple[str, ...], what: str) -> Iterator[Any]:
    for resource in _list(get(record, *names)):
        scopes = get(resource, "scopeSpans", "scope_spans", "scopeLogs", "scope_logs",
                     "instrumentationLibrarySpans")  # fmt: skip
        for scope in _list(scopes):
            snake = {"logRecords": "log_records"}.get(what, what)
            yield from _list(get(scope, what, snake))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _ids(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Trace, span and parent."""
    context = record.get("context")
    around = context if isinstance(context, Mapping) else record
    trace = get(around, "trace_id", "traceId", "context.trace_id")
    name = get(around, "span_id", "spanId", "context.span_id")
    parent = get(record, "parent_id", "parentSpanId", "parent_span_id")
    return _id(trace), _id(name), _id(parent)


def _id(value: Any) -> str:
    return as_text(value).removeprefix("0x")


def _span(record: Any) -> RawSpan | None:
    if not isinstance(record, dict):
        return None
    trace, name, parent = _ids(record)
    if not name:
        return None
    given = record.get("attributes")
    attributes = _attributes(given) if isinstance(given, list) else dict(_flat(given))
    for key, value in record.items():  # a row of Phoenix's table
        if key.startswith("attributes."):
            attributes |= dict(_flat(value, key.removeprefix("attributes.")))
    if isinstance(record.get("span_kind"), str) and record["span_kind"]:
        attributes.setdefault("openinference.span.kind", record["span_kind"])
    status = record.get("status")
    code = get(status, "status_code", "code") if isinstance(status, Mapping) else None
    code = code if code is not None else record.get("status_code")
    message = get(status, "message", "description") or record.get("status_message")
    return RawSpan(
        trace,
        name,
        parent,
        as_text(record.get("name")),
        moment(get(record, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime")),
        moment(get(record, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime")),
        attributes,
        [_event(each) for each in _list(record.get("events")) if isinstance(each, dict)],
        as_text(code).upper() in ("ERROR", "2", "STATUS_CODE_ERROR"),
        as_text(message),
        {
            key: value
            for key, value in record.items()
            if key.split(".")[0] in ("annotations", "evaluations", "span_annotations", "eval")
            and value
        },
    )


def _event(record: Mapping[str, Any]) -> Happening:
    given = record.get("attributes")
    attributes = _attributes(given) if isinstance(given, list) else dict(_flat(given))
    return Happening(as_text(record.get("name")), attributes)


def _log(record: Any) -> tuple[str, str, Happening] | None:
    if not isinstance(record, dict):
        return None
    trace, name, _ = _ids(record)
    attributes = _attributes(_list(record.get("attributes")))
    title = get(record, "eventName", "event_name") or attributes.get("event.name")
    body = _value(record.get("body"))
    if not name or not title:
        return None
    if isinstance(body, dict):
        attributes |= body
    elif body is not None:
        attributes["content"] = body
    return trace, name, Happening(as_text(title), attributes)


def _attributes(listed: list[Any]) -> dict[str, Any]:
    return {
        as_text(each.get("key")): _value(each.get("value"))
        for each in listed
        if isinstance(each, dict)
    }


def _value(value: Any, depth: int = 0) -> Any:
    """The plain value of an OTLP `AnyValue`."""
    if not isinstance(value, dict) or depth > 50:
        return value
    kind, held = next(iter(value.items()), ("", None))
    match re.sub(r"_(\w)", lambda found: found[1].upper(), kind):
        case "intValue":
            return int(str(held)) if re.fullmatch(r"-?\d{1,20}", str(held)) else held
        case "arrayValue":
            return [_value(each, depth + 1) for each in _list(get(held, "values"))]
        case "kvlistValue":
            return {
                as_text(each.get("key")): _value(each.get("value"), depth + 1)
                for each in _list(get(held, "values"))
                if isinstance(each, dict)
            }
        case "stringValue" | "boolValue" | "doubleValue" | "bytesValue":
            return held
    return value if value else None


def _flat(value: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """An object's fields with dotted names. What a list holds stays as it is."""
    if isinstance(value, dict) and depth < 20:
        for key, each in value.items():
            yield from _flat(each, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif prefix and value is not None:
        yield prefix, value


_DIGITS = re.compile(r"\d{1,4}")


def nested(attributes: Mapping[str, Any], prefix: str) -> Any:
    """What stands under `prefix.`, as lists and objects: `messages.0.role` -> `[{"role": …}]`."""
    if prefix in attributes:
        return attributes[prefix]
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(f"{prefix}."):
            continue
        at = tree
        *way, last = key[len(prefix) + 1 :].split(".")
        for step in way:
            below = at.setdefault(step, {})
            if not isinstance(below, dict):
                below = at[step] = {"": below}
            at = below
        at[last] = value
    return _lists(tree) if tree else None


def _lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(_DIGITS.fullmatch(key) for key in tree):
        return [_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _lists(value) for key, value in tree.items()}


def moment(value: Any) -> int | None:
    """A time as a number that orders: of nanoseconds, or of whatever unit a number is in."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value * 1000) if abs(value) < 1e17 else None  # false for NaN too
    text = str(value).strip()
    if re.fullmatch(r"\d{1,20}", text):
        return int(text)
    try:
        read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    try:
        return int(read.timestamp() * 1_000_000)
    except (OverflowError, ValueError, OSError):
        return None
