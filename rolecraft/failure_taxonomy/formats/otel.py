"""OpenTelemetry spans in the semantic conventions for generative AI.

Read are OTLP/JSON as the collector's file exporter writes it, the SDK's console and `to_json`
form, and what `rolecraft.trajectories.telemetry` records; messages as attributes
(`gen_ai.input.messages`), as events on spans or log records (`gen_ai.user.message`,
`gen_ai.choice`), and as numbered attributes (`gen_ai.prompt.0.content`); spans of Langfuse's SDK
too (`_renamed`). A file may hold several traces; each is a trajectory with the trace's id. How
spans become events: `_spans`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats._otlp import (
    Happening,
    RawSpan,
    is_span_file,
    nested,
    raw_spans,
)
from rolecraft.failure_taxonomy.formats._renamed import renamed
from rolecraft.failure_taxonomy.formats._said import Part, Said, as_arguments, as_text, read_message
from rolecraft.failure_taxonomy.formats._spans import Span, SpanKind, tell_traces
from rolecraft.failure_taxonomy.formats._values import (
    first_record,
    is_label,
    labels_in,
    one_or_all,
    records,
    sayings,
    values,
)
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.trajectory import Trajectory

NAME = "otel"

_OPERATIONS: dict[str, SpanKind] = {
    "chat": "model",
    "generate_content": "model",
    "text_completion": "model",
    "completion": "model",
    "responses": "model",
    "invoke_agent": "agent",
    "create_agent": "other",
    "execute_tool": "tool",
    "invoke_workflow": "run",
    "workflow": "run",
    "agent": "agent",
    "tool": "tool",
    "evaluator": "labels",
}
_SIDES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def _recognises(source: Source) -> bool:
    return is_span_file(first_record(source))


def _load(source: Source) -> Trajectory | list[Trajectory]:
    return one_or_all(load_spans(source, NAME, read_span))


def load_spans(source: Source, name: str, read: Callable[[RawSpan], Span]) -> Iterator[Trajectory]:
    """A trajectory for each trace of a file of spans. Raises `TraceError` if it holds no span."""
    raw, odd = raw_spans(records(source))
    _, flaws = values(source)
    if not raw:
        what = f": {flaws[0]}" if flaws else ""
        raise TraceError(source.path, f"there are no spans in it{what}")
    traces: dict[str, list[RawSpan]] = {}
    for span in raw:
        traces.setdefault(span.trace, []).append(span)
    trajectories = (
        (Trajectory(trace, {"format": name}), map(read, spans)) for trace, spans in traces.items()
    )
    yield from tell_traces(source, trajectories, odd=odd, what="spans")


def read_span(raw: RawSpan) -> Span:
    """A span, as the conventions say what it means."""
    said = _all_attributes(raw)
    kind = _kind(raw, said)
    error, error_text = raw.error
    error = error or as_text(said.get("error.type"))
    span = Span(
        raw.id,
        raw.name,
        kind,
        raw.parent,
        begin=raw.begin,
        end=raw.end,
        error=error,
        error_text=error_text,
        usage=_usage(said) if kind == "model" else None,
        labels={key: value for key, value in said.items() if is_label(key)} | raw.extra,
    )
    name = said.get("gen_ai.agent.name") or said.get("agent_name")
    if not name and kind == "agent":
        name = said.get("traceloop.entity.name") or raw.name.removeprefix("invoke_agent").strip()
    span.agent = as_text(name)
    if kind == "run":
        span.name = as_text(said.get("gen_ai.workflow.name")) or raw.name
    span.described = {
        "model": as_text(said.get("gen_ai.request.model")) if kind == "model" else "",
        "desc": as_text(said.get("gen_ai.agent.description")),
    }
    for event in raw.events:
        if event.name.startswith("gen_ai.evaluation"):
            title = as_text(event.attributes.get("gen_ai.evaluation.name")) or event.name
            span.labels[title] = event.attributes
    if kind == "tool":
        _tool(span, said)
    elif kind in ("model", "agent", "run"):
        span.heard, span.said = _messages(raw, said)
        for key in (*_ASKED, *_ANSWERED):
            span.labels |= labels_in(said.get(key), prefix=f"{key}.")
    return span


def _all_attributes(raw: RawSpan) -> dict[str, Any]:
    """A span's attributes, with those of events that only carry them."""
    said = renamed(raw)
    for event in raw.events:
        if event.name in ("gen_ai.client.inference.operation.details", "gen_ai.content.prompt",
                          "gen_ai.content.completion"):  # fmt: skip
            said |= event.attributes
    return said


def _kind(raw: RawSpan, said: dict[str, Any]) -> SpanKind:
    operation = as_text(said.get("gen_ai.operation.name")).lower()
    if operation:
        return _OPERATIONS.get(operation, "other")
    entity = as_text(said.get("traceloop.span.kind")).lower()
    if entity:
        return _OPERATIONS.get(entity, "other")
    if "gen_ai.tool.name" in said:
        return "tool"
    model = "gen_ai.request.model" in said or "llm.request.type" in said
    spoken = any(key.startswith(("gen_ai.prompt", "gen_ai.completion")) for key in said)
    return "model" if model or spoken else "other"


def _usage(said: dict[str, Any]) -> Usage | None:
    def number(*names: str) -> int:
        found = next((said[name] for name in names if said.get(name) is not None), 0)
        return whole(found)

    asked = number("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
    answered = number("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
    usd = next((said[key] for key in ("rolecraft.usage.usd", "gen_ai.usage.cost", "operation.cost")
                if isinstance(said.get(key), (int, float))), None)  # fmt: skip
    return usage_of(asked, answered, usd)


def whole(value: Any) -> int:
    """A count; 0 for what is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        return int(value)
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
    return int(value) if fits else 0


def usage_of(asked: int, answered: int, usd: Any) -> Usage | None:
    """The usage of a call; None if nothing is known of it."""
    price = float(usd) if isinstance(usd, (int, float)) and 0 < usd < 1e9 else None
    return Usage(asked, answered, price) if asked or answered or price else None


def _tool(span: Span, said: dict[str, Any]) -> None:
    name = said.get("gen_ai.tool.name") or said.get("traceloop.entity.name")
    given = next(
        (said[key] for key in ("gen_ai.tool.call.arguments", "tool_arguments",
                               "traceloop.entity.input") if key in said),
        None,
    )  # fmt: skip
    returned = next(
        (said[key] for key in ("gen_ai.tool.call.result", "tool_response", "gen_ai.tool.message",
                               "traceloop.entity.output") if key in said),
        None,
    )  # fmt: skip
    span.tool = Part(
        "call",
        as_text(returned),
        name=as_text(name) or span.name.removeprefix("execute_tool").strip(),
        id=as_text(said.get("gen_ai.tool.call.id")),
        arguments=as_arguments(given),
    )
    # A span without contents still says that the tool returned.
    span.tool.ok = not span.error
    span.returns = True


_ASKED = (
    "gen_ai.input.messages", "gen_ai.prompt", "traceloop.entity.input", "gen_ai.request.messages"
)  # fmt: skip
_ANSWERED = (
    "gen_ai.output.messages", "gen_ai.completion", "final_result", "traceloop.entity.output"
)  # fmt: skip


def _messages(raw: RawSpan, said: dict[str, Any]) -> tuple[list[Said], list[Said]]:
    heard: list[Said] = []
    told: list[Said] = []
    instructions = sayings(said.get("gen_ai.system_instructions"), "system")
    heard += [Said("system", each.parts) for each in instructions]
    asked, answered = _first(said, *_ASKED), _first(said, *_ANSWERED)
    heard += sayings(asked, "user")
    told += sayings(answered, "assistant")
    if asked is None and answered is None:
        for event in raw.events:
            _spoken(event, heard, told)
    return heard, told


def _first(said: dict[str, Any], *names: str) -> Any:
    return next((found for name in names if (found := nested(said, name)) is not None), None)


def _spoken(event: Happening, heard: list[Said], told: list[Said]) -> None:
    """A message that is an event of its own: `gen_ai.user.message`, `gen_ai.choice`."""
    kind = event.name.removeprefix("gen_ai.").removesuffix(".message")
    if not event.name.startswith("gen_ai.") or kind not in {*_SIDES, "choice"}:
        return
    body = dict(event.attributes)
    content = body.get("gen_ai.event.content")
    if isinstance(content, str):
        read = as_arguments(content)
        body = read if isinstance(read, dict) else {"content": content}
    message = body.get("message") if isinstance(body.get("message"), dict) else body
    side = "assistant" if kind == "choice" else _SIDES[kind]
    if isinstance(message, dict):
        read_it = read_message({"role": side, **message})
        if read_it is not None:
            (told if kind == "choice" else heard).append(read_it)


FORMAT = Format(
    NAME, "OpenTelemetry spans of generative AI (OTLP/JSON, or the SDK's)", _recognises, _load
)
