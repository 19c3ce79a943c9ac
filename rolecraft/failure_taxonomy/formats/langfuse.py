"""Langfuse exports: a trace with its `observations`, lists of them, or observations alone.

The names are those of the API (`startTime`, `parentObservationId`) or of the SDK
(`start_time`, …). What an observation is says its `type`: GENERATION, AGENT, TOOL, RETRIEVER,
EVALUATOR and so on. Scores, evaluators, expected outputs and scores in metadata are labels. How
spans become events: `_spans`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats._otlp import get, moment
from rolecraft.failure_taxonomy.formats._said import Part, as_arguments, as_text
from rolecraft.failure_taxonomy.formats._spans import Span, SpanKind, tell_traces
from rolecraft.failure_taxonomy.formats._values import (
    first_record,
    labels_in,
    one_or_all,
    records,
    sayings,
)
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.otel import usage_of, whole
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.trajectory import Trajectory

NAME = "langfuse"

_KINDS: dict[str, SpanKind] = {
    "GENERATION": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "tool",
    "EVALUATOR": "labels",
}
_TYPES = frozenset(
    {*_KINDS, "SPAN", "EVENT", "CHAIN", "EMBEDDING", "GUARDRAIL"}
)  # fmt: skip


def _recognises(source: Source) -> bool:
    first = first_record(source)
    return _is_trace(first) or any(map(_is_observation, _observations(first)[:1]))


def _is_trace(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("observations"), list):
        return False
    inside = record["observations"]
    return "id" in record and all(isinstance(each, (dict, str)) for each in inside)


def _is_observation(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and as_text(record.get("type")) in _TYPES
        and get(record, "traceId", "trace_id") is not None
        and get(record, "startTime", "start_time") is not None
    )


def _observations(record: Any) -> list[Any]:
    """A page of the API, or the record itself."""
    data = get(record, "data")
    return data if isinstance(data, list) else [record]


def _load(source: Source) -> Trajectory | list[Trajectory]:
    return one_or_all(_traces(source))


def _traces(source: Source) -> Iterator[Trajectory]:
    traces: dict[str, dict[str, Any]] = {}
    inside: dict[str, list[Mapping[str, Any]]] = {}
    odd = 0
    for record in [each for page in records(source) for each in _observations(page)]:
        if isinstance(record, dict) and isinstance(record.get("observations"), list):
            trace = as_text(record.get("id")) or str(len(traces))
            traces[trace] = record
            found = [each for each in record["observations"] if isinstance(each, dict)]
            odd += len(record["observations"]) - len(found)
            inside.setdefault(trace, []).extend(found)
        elif isinstance(record, dict) and get(record, "traceId", "trace_id") is not None:
            trace = as_text(get(record, "traceId", "trace_id"))
            inside.setdefault(trace, []).append(record)
        else:
            odd += 1
    if not inside:
        raise TraceError(source.path, "there are no observations in it")
    trajectories = (
        _of_trace(trace, traces.get(trace, {}), observations)
        for trace, observations in inside.items()
    )
    yield from tell_traces(source, trajectories, odd=odd, what="observations")


def _of_trace(
    trace: str, record: Mapping[str, Any], observations: list[Mapping[str, Any]]
) -> tuple[Trajectory, list[Span]]:
    labels = _labels(record)
    trajectory = Trajectory(trace, {"format": NAME, **({"labels": labels} if labels else {})})
    known = set(map(_id, observations))
    spans = [_span(each, known) for each in observations]
    return trajectory, [*_root(record, spans), *spans]


def _id(record: Mapping[str, Any]) -> str:
    return as_text(record.get("id"))


def _root(record: Mapping[str, Any], spans: list[Span]) -> list[Span]:
    """The trace itself, as the span around everything."""
    if not record:
        return []
    begins = [span.begin for span in spans if span.begin is not None]
    ends = [span.end for span in spans if span.end is not None]
    root = Span("", as_text(record.get("name")), "run", begin=min(begins, default=None))
    root.end = max(ends, default=None)
    root.id = "(trace)"
    root.heard = sayings(record.get("input"), "user")
    root.said = sayings(record.get("output"), "assistant")
    for span in spans:
        span.parent = span.parent or root.id
    return [root]


def _span(record: Mapping[str, Any], known: set[str]) -> Span:
    kind = _KINDS.get(as_text(record.get("type")).upper(), "other")
    parent = as_text(get(record, "parentObservationId", "parent_observation_id"))
    parent = parent if parent in known else ""
    failed = as_text(record.get("level")).upper() == "ERROR"
    message = as_text(get(record, "statusMessage", "status_message"))
    if kind == "other" and not parent and as_text(record.get("type")) != "EVENT":
        kind = "run"
    span = Span(
        _id(record),
        as_text(record.get("name")),
        kind,
        parent,
        begin=moment(get(record, "startTime", "start_time")),
        end=moment(get(record, "endTime", "end_time")),
        error="error" if failed else "",
        error_text=message if failed else "",
        labels=_labels(record),
    )
    metadata = record.get("metadata")
    named = as_text(get(metadata, "agent_name", "agent", "langgraph_node"))
    span.agent = named or (span.name if kind == "agent" else "")
    given, returned = record.get("input"), record.get("output")
    if kind == "tool":
        arguments = as_arguments(given)
        span.tool = Part(
            "call",
            as_text(returned),
            span.name,
            as_text(get(metadata, "tool_call_id")),
            {"input": arguments} if isinstance(arguments, str) else arguments,
            ok=not failed,
        )
        span.returns = returned is not None
    elif kind in ("model", "agent", "run"):
        span.heard = sayings(given, "user")
        span.said = sayings(returned, "assistant", words=kind == "model")
    if kind == "model":
        span.described["model"] = as_text(record.get("model"))
        span.usage = _usage(record)
    if kind == "labels":
        span.labels |= {"name": span.name, "output": returned}
    return span


def _labels(record: Mapping[str, Any]) -> dict[str, Any]:
    labels = {
        key: record[key]
        for key in ("scores", "expectedOutput", "expected_output", "comments")
        if record.get(key)
    }
    kind = _KINDS.get(as_text(record.get("type")).upper())
    for key in ("metadata", "input", "output"):
        given = record.get(key)
        told_whole = kind in ("tool", "labels") or (kind == "model" and isinstance(given, str))
        if key == "metadata" or not told_whole:
            labels |= labels_in(given, prefix=f"{key}.")
    return labels


def _usage(record: Mapping[str, Any]) -> Usage | None:
    told = get(record, "usageDetails", "usage_details", "usage")
    asked = whole(get(told, "input", "prompt_tokens", "promptTokens"))
    answered = whole(get(told, "output", "completion_tokens", "completionTokens"))
    costs = get(record, "costDetails", "cost_details")
    price = get(record, "calculatedTotalCost", "totalCost", "total_cost") or get(costs, "total")
    return usage_of(asked, answered, price)


FORMAT = Format(NAME, "Langfuse traces or observations (JSON or JSON lines)", _recognises, _load)
