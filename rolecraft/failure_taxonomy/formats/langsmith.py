"""LangSmith runs: JSON lines or a list of runs, flat or nested in `child_runs`.

A run's `run_type` says what it is; `trace_id` or `dotted_order` which trace it belongs to. The
role of a model call is the agent or graph node that its metadata names, or else the nearest
function around it (a `chain` other than LangChain's own). Feedback, reference outputs and
evaluators are labels. How spans become events: `_spans`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats._otlp import get, moment
from rolecraft.failure_taxonomy.formats._said import Part, as_arguments, as_text, read_message
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

NAME = "langsmith"

_KINDS: dict[str, SpanKind] = {
    "llm": "model",
    "chat_model": "model",
    "tool": "tool",
    "retriever": "tool",
    "evaluator": "labels",
}
_OF_LANGCHAIN = ("Runnable", "ChatPromptTemplate", "LangGraph", "ChannelWrite", "Branch<")
_NO_AGENT = frozenset({"tools", "tool", "__start__", "__end__"})


def _recognises(source: Source) -> bool:
    return _is_run(_first(first_record(source)))


def _first(record: Any) -> Any:
    wrapped = get(record, "runs")
    return wrapped[0] if isinstance(wrapped, list) and wrapped else record


def _is_run(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and isinstance(record.get("run_type"), str)
        and bool({"dotted_order", "trace_id", "parent_run_id", "child_runs"} & record.keys())
    )


def _load(source: Source) -> Trajectory | list[Trajectory]:
    return one_or_all(_traces(source))


def _traces(source: Source) -> Iterator[Trajectory]:
    runs: list[Mapping[str, Any]] = []
    odd = 0
    for record in records(source):
        wrapped = get(record, "runs")
        for run in wrapped if isinstance(wrapped, list) else [record]:
            found = list(_unfolded(run))
            odd += not found
            runs += found
    if not runs:
        raise TraceError(source.path, "there are no runs in it (objects with a `run_type`)")
    traces: dict[str, list[Mapping[str, Any]]] = {}
    for run in {_id(run) or str(number): run for number, run in enumerate(runs)}.values():
        traces.setdefault(_trace(run), []).append(run)
    trajectories = (
        (Trajectory(trace, {"format": NAME}), _spans(members)) for trace, members in traces.items()
    )
    yield from tell_traces(source, trajectories, odd=odd, what="runs")


def _spans(runs: list[Mapping[str, Any]]) -> list[Span]:
    by_id = {_id(run): run for run in runs}
    return [_span(run, by_id) for run in runs]


def _unfolded(run: Any) -> Iterator[Mapping[str, Any]]:
    """A run and those in its `child_runs`, which know no parent of their own."""
    stack: list[tuple[Any, str, str]] = [(run, "", "")]
    while stack:
        at, parent, trace = stack.pop()
        if not isinstance(at, dict) or not isinstance(at.get("run_type"), str):
            continue
        trace = trace or _trace(at)
        yield {"parent_run_id": parent or None, "trace_id": trace, **_given(at)}
        children = at.get("child_runs")
        below = children if isinstance(children, list) else []
        stack += [(child, _id(at), trace) for child in below]


def _given(run: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if value is not None and key != "child_runs"}


def _id(run: Mapping[str, Any]) -> str:
    return as_text(run.get("id"))


def _trace(run: Mapping[str, Any]) -> str:
    """The trace's id; the first part of `dotted_order` is its root, `<time>Z<id>`."""
    if run.get("trace_id"):
        return as_text(run["trace_id"])
    order = as_text(run.get("dotted_order")).partition(".")[0]
    return order.partition("Z")[2] or _id(run)


def _parent(run: Mapping[str, Any]) -> str:
    if run.get("parent_run_id"):
        return as_text(run["parent_run_id"])
    parts = as_text(run.get("dotted_order")).split(".")
    return parts[-2].partition("Z")[2] if len(parts) > 1 else ""


def _kind(run: Mapping[str, Any]) -> SpanKind:
    return _KINDS.get(as_text(run["run_type"]).lower(), "other")


def _span(run: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> Span:
    kind = _kind(run)
    inputs, outputs = run.get("inputs"), run.get("outputs")
    parent = _parent(run)
    if kind == "other" and parent not in by_id:
        kind = "run"
    error = as_text(run.get("error"))
    span = Span(
        _id(run),
        as_text(run.get("name")),
        kind,
        parent,
        begin=moment(run.get("start_time")),
        end=moment(run.get("end_time")),
        error=error.partition("(")[0].partition(":")[0].strip()[:60] if error else "",
        error_text=error,
        labels=_labels(run),
    )
    if error and not span.error:
        span.error = "error"
    if kind in ("model", "tool"):
        span.agent = _agent(run, by_id)
    if kind == "tool":
        given = as_arguments(get(inputs, "input") if _only(inputs, "input") else inputs)
        arguments = {"input": given} if isinstance(given, str) else given
        if isinstance(arguments, dict) and arguments.get("type") == "tool_call":
            call_id, arguments = as_text(arguments.get("id")), arguments.get("args")
        else:
            call_id = as_text(get(_metadata(run), "tool_call_id"))
        returned = get(outputs, "output") if _only(outputs, "output") else outputs
        message = read_message(returned)
        said = message.parts if message is not None else [Part("result", as_text(returned))]
        text = "\n".join(part.text for part in said)
        span.tool = Part("call", text, span.name, call_id, arguments, ok=not error)
        span.tool.id = span.tool.id or next((part.id for part in said if part.id), "")
        span.returns = outputs is not None
    elif kind in ("model", "run"):
        span.heard = sayings(inputs, "user")
        span.said = sayings(outputs, "assistant")
        if kind == "model":
            span.described["model"] = as_text(get(_metadata(run), "ls_model_name"))
            span.usage = _usage(run, outputs)
    return span


def _only(fields: Any, name: str) -> bool:
    return isinstance(fields, dict) and set(fields) == {name}


def _metadata(run: Mapping[str, Any]) -> Any:
    return get(run.get("extra"), "metadata") or {}


def _agent(run: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> str:
    """Whom a call is by: what its metadata names, or the function around it."""
    around, outermost = "", ""
    at: Mapping[str, Any] | None = run
    for _ in range(200):  # runs may claim to be around each other
        if at is None:
            break
        metadata = _metadata(at)
        name = as_text(get(metadata, "lc_agent_name", "agent_name", "langgraph_node"))
        if name and name not in _NO_AGENT:
            return name
        if at.get("run_type") == "chain":
            title = as_text(at.get("name"))
            above = by_id.get(_parent(at))
            if title and not title.startswith(_OF_LANGCHAIN):
                if above is None:
                    outermost = title
                else:
                    around = around or title
        at = by_id.get(_parent(at))
    return around or outermost


def _labels(run: Mapping[str, Any]) -> dict[str, Any]:
    labels = {
        key: run[key]
        for key in ("feedback_stats", "feedback", "reference_outputs", "reference_example_id")
        if run.get(key)
    }
    labels |= labels_in(run.get("extra"))
    if run.get("run_type") == "evaluator":
        labels["outputs"] = run.get("outputs")
    else:
        labels |= labels_in(run.get("outputs"), prefix="outputs.")
    if _kind(run) != "tool":  # what a tool was asked is told whole
        labels |= labels_in(run.get("inputs"), prefix="inputs.")
    return labels


def _usage(run: Mapping[str, Any], outputs: Any) -> Usage | None:
    told = get(outputs, "usage_metadata", "usage") or get(get(outputs, "llm_output"), "token_usage")
    told = told or get(_metadata(run), "usage_metadata") or _generated(outputs)
    asked = whole(run.get("prompt_tokens") or get(told, "input_tokens", "prompt_tokens"))
    answered = whole(
        run.get("completion_tokens") or get(told, "output_tokens", "completion_tokens")
    )
    usd = run.get("total_cost")
    try:
        price = None if usd is None else float(usd)
    except (TypeError, ValueError, OverflowError):
        price = None
    return usage_of(asked, whole(answered), price)


def _generated(outputs: Any) -> Any:
    """The usage that LangChain keeps in the message of the first generation."""
    at = get(outputs, "generations")
    while isinstance(at, list) and at:
        at = at[0]
    message = get(at, "message")
    return get(get(message, "kwargs") or message, "usage_metadata") or {}


FORMAT = Format(NAME, "LangSmith runs (JSON or JSON lines)", _recognises, _load)
