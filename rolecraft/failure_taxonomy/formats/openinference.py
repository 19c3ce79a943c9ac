"""OpenInference spans: what Phoenix and its instrumentations record.

Read are spans in any of OpenTelemetry's writings and Phoenix's exports (see `_otlp`). What a span
is says `openinference.span.kind`; its messages stand under `llm.input_messages` and
`llm.output_messages`, a tool's arguments and result in `input.value` and `output.value`.
Annotations and evaluations are labels. How spans become events: `_spans`.
"""

from __future__ import annotations

from typing import Any

from rolecraft.failure_taxonomy.formats import otel
from rolecraft.failure_taxonomy.formats._otlp import RawSpan, is_span_file, nested, raw_spans
from rolecraft.failure_taxonomy.formats._said import Part, as_arguments, as_text
from rolecraft.failure_taxonomy.formats._spans import Span, SpanKind
from rolecraft.failure_taxonomy.formats._values import (
    first_record,
    is_label,
    labels_in,
    one_or_all,
    records,
    sayings,
)
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.trajectory import Trajectory

NAME = "openinference"
_KIND = "openinference.span.kind"

_KINDS: dict[str, SpanKind] = {
    "LLM": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "tool",
    "EVALUATOR": "labels",
}


def _recognises(source: Source) -> bool:
    if not is_span_file(first_record(source)):
        return False
    found, _ = raw_spans(records(source))
    return any(_KIND in span.attributes for span in found)


def _load(source: Source) -> Trajectory | list[Trajectory]:
    return one_or_all(otel.load_spans(source, NAME, _read))


def _read(raw: RawSpan) -> Span:
    said = raw.attributes
    if _KIND not in said:
        return otel.read_span(raw)
    kind = _KINDS.get(as_text(said[_KIND]).upper(), "other")
    if kind == "other" and not raw.parent:
        kind = "run"
    error, error_text = raw.error
    span = Span(
        raw.id,
        raw.name,
        kind,
        raw.parent,
        agent=as_text(said.get("agent.name") or said.get("graph.node.id")),
        begin=raw.begin,
        end=raw.end,
        error=error,
        error_text=error_text,
        labels={key: value for key, value in said.items() if is_label(key)} | raw.extra,
    )
    if kind == "agent" and not span.agent:
        span.agent = raw.name
    if kind == "tool":
        _tool(span, said)
    elif kind == "model":
        span.described["model"] = as_text(said.get("llm.model_name"))
        span.usage = _usage(said)
    if kind == "labels":
        span.labels |= {"name": raw.name, "output": said.get("output.value")}
    if kind in ("model", "agent", "run"):
        heard = nested(said, "llm.input_messages") or nested(said, "llm.prompts")
        told = nested(said, "llm.output_messages") or nested(said, "llm.choices")
        span.heard = sayings(heard or said.get("input.value"), "user")
        span.said = sayings(told or said.get("output.value"), "assistant")
        for key in ("input.value", "output.value"):
            span.labels |= labels_in(said.get(key), prefix=f"{key}.")
    return span


def _tool(span: Span, said: dict[str, Any]) -> None:
    documents = nested(said, "retrieval.documents")
    returned = said.get("output.value")
    if returned is None and documents is not None:
        returned = documents
    given = said.get("input.value", said.get("tool.parameters"))
    arguments = as_arguments(given)
    span.tool = Part(
        "call",
        as_text(returned),
        name=as_text(said.get("tool.name")) or span.name,
        id=as_text(said.get("tool_call.id") or said.get("tool.id")),
        arguments={"input": arguments} if isinstance(arguments, str) else arguments,
        ok=not span.error,
    )
    span.returns = True


def _usage(said: dict[str, Any]) -> Usage | None:
    asked = otel.whole(said.get("llm.token_count.prompt"))
    answered = otel.whole(said.get("llm.token_count.completion"))
    return otel.usage_of(asked, answered, said.get("llm.cost.total"))


FORMAT = Format(
    NAME, "OpenInference spans (Phoenix exports, OTLP/JSON, or the SDK's)", _recognises, _load
)
