"""OpenTelemetry spans: our own exporter's, the SDK's and the collector's files, three ways of
keeping messages, and that no message is told twice."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from rolecraft import Action, Role, Team
from rolecraft.actions import tool
from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy import read, recognise
from rolecraft.failure_taxonomy.formats import read_all
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, FunctionModel, ModelCall
from rolecraft.trajectories import Trajectory
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.telemetry import Telemetry

Write = Callable[[list[ReadableSpan], Path], Path]


@tool
async def lookup(word: str) -> str:
    """Look a word up."""
    if word == "bad":
        raise ValueError("no such word")
    return f"{word}: a flightless bird"


class Draft(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(f"Write about {history[-1].content}.")


class Review(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(f"Review this: {history[-1].content}")


class Reviewer(Role):
    actions = [Review]
    watch = [Draft]


def answer(call: ModelCall) -> Completion:
    asked = call.messages[-1].content
    if asked.startswith("Write"):
        return Completion(text="A kiwi cannot fly.", usage=Usage(5, 4, 0.25))
    if asked.startswith("Review"):
        return Completion(text="True, and well said.")
    if any(message.role == "tool" for message in call.messages):
        return Completion(text="It is a bird.")
    calls = [ToolCall("lookup", {"word": "kiwi"}, "c1"), ToolCall("lookup", {"word": "bad"}, "c2")]
    return Completion(text="", tool_calls=calls, finish_reason="tool_calls")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


# --- how spans get into files ---------------------------------------------------------------------


def as_lines(spans: list[ReadableSpan], path: Path) -> Path:
    path.write_text("".join(span.to_json(indent=None) + "\n" for span in spans))
    return path


def as_console(spans: list[ReadableSpan], path: Path) -> Path:
    out = io.StringIO()
    ConsoleSpanExporter(out=out).export(spans)
    path.write_text(out.getvalue())
    return path


def any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(value)}}
    return {"stringValue": value}


def attributes(fields: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in (fields or {}).items()]


def otlp(span: ReadableSpan) -> dict[str, Any]:
    """A span as OTLP/JSON has it (the proto's JSON mapping, ids in hexadecimal)."""
    return {
        "traceId": f"{span.context.trace_id:032x}",
        "spanId": f"{span.context.span_id:016x}",
        "parentSpanId": f"{span.parent.span_id:016x}" if span.parent else "",
        "name": span.name,
        "kind": span.kind.value + 1,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": attributes(span.attributes),
        "events": [
            {
                "timeUnixNano": str(event.timestamp),
                "name": event.name,
                "attributes": attributes(event.attributes),
            }
            for event in span.events
        ],
        "status": {"code": span.status.status_code.value, "message": span.status.description or ""},
    }


def as_collector(spans: list[ReadableSpan], path: Path) -> Path:
    """The collector's file exporter: a batch a line, children before their parents."""
    lines = []
    for start in range(0, len(spans), 2):
        scope = {"scope": {"name": "rolecraft"}, "spans": list(map(otlp, spans[start : start + 2]))}
        resource = {"attributes": attributes({"service.name": "birds"})}
        lines.append({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def accounted(trajectory: Trajectory) -> dict[str, int]:
    account = dict(trajectory.about["accounting"])
    assert account.pop("unit") == "element"
    total = account.pop("total")
    assert sum(account.values()) == total
    return account


def told(trajectory: Trajectory, *kinds: str) -> list[tuple[str, str]]:
    return [(event.role, event.content) for event in trajectory.events if event.kind in kinds]


# --- our own runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [as_lines, as_console, as_collector])
async def test_a_run_that_is_exported_and_imported_has_the_same_roles_messages_and_calls(
    write: Write, exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    team = Team(
        [Role(name="Ann", actions=[Draft]), Reviewer(name="Ben"), Role(name="Cy", tools=[lookup])],
        model=FunctionModel(answer, name="openai/gpt-4o"),
        observers=[Telemetry("birds", provider=provider, contents=True)],
    )
    run = await team.run("kiwis")
    path = write(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl")
    assert recognise(path) == "otel"
    imported = read(path)
    ours = run.trajectory
    assert set(imported.roles) == set(ours.roles)
    assert sorted(told(imported, "message")) == sorted(told(ours, "message"))
    assert told(imported, "message")[0] == ("user", "kiwis")
    assert imported.about["task"] == "kiwis"

    def calls(trajectory: Trajectory) -> list[Any]:
        return [(e.role, e.data["tool"], e.data["arguments"]) for e in trajectory.of("tool_call")]

    def results(trajectory: Trajectory) -> list[Any]:
        return [(e.role, e.content, e.data["ok"]) for e in trajectory.of("tool_result")]

    assert len(calls(ours)) == 2
    assert calls(imported) == calls(ours)
    assert [row[2] for row in results(imported)] == [True, False]
    assert results(imported)[0] == results(ours)[0]
    by_seq = {event.seq: event for event in imported.events}
    for result in imported.of("tool_result"):
        assert result.cause is not None
        assert by_seq[result.cause].data["id"] == result.data["id"]
    assert imported.usage.prompt_tokens == ours.usage.prompt_tokens
    assert imported.usage.usd == ours.usage.usd
    assert not imported.problems
    assert accounted(imported)["unsegmented"] == 0


async def test_spans_without_contents_say_that_nothing_can_be_missed_in_them(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    team = Team(
        [Role(name="Ann", actions=[Draft])],
        model=FunctionModel(answer),
        observers=[Telemetry("birds", provider=provider)],
    )
    await team.run("kiwis")
    imported = read(as_lines(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl"))
    assert [(event.kind, event.role) for event in imported.events] == [("model_call", "Ann")]
    assert imported.usage.completion_tokens == 4
    assert "1 of 1 model calls hold no answer" in imported.problems[0]


# --- other programs' ------------------------------------------------------------------------------


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


SYSTEM = text("system", "You are a travel agent.")
TASK = text("user", "Book me a room in Oslo.")
CALL: dict[str, Any] = {
    "role": "assistant",
    "parts": [
        {"type": "reasoning", "content": "I need the dates."},
        {"type": "tool_call", "id": "t1", "name": "rooms", "arguments": {"city": "Oslo"}},
    ],
}
RETURNED = {
    "role": "tool",
    "parts": [{"type": "tool_call_response", "id": "t1", "response": "3 rooms"}],
}
DONE = text("assistant", "Booked.")


def chats(provider: TracerProvider, *calls: tuple[list[Any], Any], agent: str = "Agent") -> None:
    """An agent whose chat spans each show their whole history, as instrumentations record it."""
    tracer = provider.get_tracer("other")
    with tracer.start_as_current_span("invoke_agent") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.agent.name", agent)
        for asked, answered in calls:
            with tracer.start_as_current_span("chat gpt") as chat:
                chat.set_attribute("gen_ai.operation.name", "chat")
                chat.set_attribute("gen_ai.request.model", "gpt")
                chat.set_attribute("gen_ai.input.messages", json.dumps(asked))
                chat.set_attribute("gen_ai.output.messages", json.dumps([answered]))


def test_a_history_that_every_call_shows_again_is_told_once(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    more, so_on = text("user", "Go on."), text("assistant", "Going on.")
    history = [SYSTEM, TASK, CALL, RETURNED, DONE]
    chats(
        provider,
        (history[:2], CALL),
        (history[:4], DONE),
        ([*history, more], so_on),
        ([*history, more, so_on, more], so_on),
    )
    trajectory = read(as_lines(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl"))
    assert [(event.kind, event.role, event.content) for event in trajectory.events] == [
        ("message", "user", "Book me a room in Oslo."),
        ("thought", "Agent", "I need the dates."),
        ("tool_call", "Agent", ""),
        ("tool_result", "Agent", "3 rooms"),
        ("message", "Agent", "Booked."),
        ("message", "user", "Go on."),
        ("message", "Agent", "Going on."),
        ("message", "user", "Go on."),
        ("message", "Agent", "Going on."),
    ]
    assert trajectory.events[3].cause == 2
    assert trajectory.events[2].data["arguments"] == {"city": "Oslo"}
    assert trajectory.about["roles"] == [
        {"name": "Agent", "system": "You are a travel agent.", "model": "gpt"}
    ]
    account = accounted(trajectory)
    # 4 chats and 9 parts; the agent and its prompt; what the later prompts show again (4, 6, 8).
    assert account == {
        "events": 13, "header": 2, "labels": 0, "blank": 0, "unsegmented": 0, "repeated": 18,
    }  # fmt: skip


def test_what_one_agent_said_is_not_told_again_when_another_is_shown_it(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    tracer = provider.get_tracer("other")
    with tracer.start_as_current_span("workflow"):
        chats(provider, ([TASK], DONE), agent="Booker")
        passed_on = text("user", "Booked.")
        chats(provider, ([TASK, passed_on], text("assistant", "Checked.")), agent="Checker")
    trajectory = read(as_lines(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl"))
    assert told(trajectory, "message") == [
        ("user", "Book me a room in Oslo."),
        ("Booker", "Booked."),
        ("Checker", "Checked."),
    ]


def test_an_answer_that_is_given_twice_is_told_twice(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    chats(provider, ([TASK], DONE), ([TASK], DONE))
    trajectory = read(as_lines(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl"))
    assert told(trajectory, "message")[1:] == [("Agent", "Booked."), ("Agent", "Booked.")]


def test_messages_that_are_events_on_spans_are_read(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    tracer = provider.get_tracer("old")
    call = {"id": "t1", "type": "function", "function": {"name": "rooms", "arguments": "{}"}}
    with tracer.start_as_current_span("chat gpt") as chat:
        chat.set_attribute("gen_ai.operation.name", "chat")
        chat.add_event("gen_ai.system.message", {"content": "You are a travel agent."})
        chat.add_event("gen_ai.user.message", {"content": "Book me a room in Oslo."})
        chosen = {"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        chat.add_event("gen_ai.choice", {"gen_ai.event.content": json.dumps(chosen)})
    for write in (as_lines, as_collector):
        trajectory = read(write(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl"))
        assert [(event.kind, event.role) for event in trajectory.events] == [
            ("message", "user"),
            ("tool_call", "assistant"),
        ]
        assert trajectory.about["roles"][0]["system"] == "You are a travel agent."


def test_messages_that_are_log_records_belong_to_their_span(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    tracer = provider.get_tracer("old")
    with tracer.start_as_current_span("chat gpt") as chat:
        chat.set_attribute("gen_ai.operation.name", "chat")
    (span,) = exporter.get_finished_spans()
    path = as_collector([span], tmp_path / "spans.jsonl")

    def log(name: str, body: Any) -> dict[str, Any]:
        ids = {key: otlp(span)[key] for key in ("traceId", "spanId")}
        return {**ids, "eventName": name, "body": any_value(body), "timeUnixNano": "1"}

    logs = [
        log("gen_ai.user.message", {"content": "Hello?"}),
        log("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "Hi."}}),
        {"body": {"stringValue": "a line of some other log"}},
    ]
    line = {"resourceLogs": [{"resource": {}, "scopeLogs": [{"logRecords": logs}]}]}
    path.write_text(path.read_text() + json.dumps(line) + "\n")
    trajectory = read(path)
    assert told(trajectory, "message") == [("user", "Hello?"), ("assistant", "Hi.")]
    assert "1 records are no spans" in trajectory.problems[0]
    assert accounted(trajectory)["unsegmented"] == 1


def test_numbered_attributes_are_messages(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    with provider.get_tracer("llmetry").start_as_current_span("openai.chat") as chat:
        chat.set_attribute("gen_ai.prompt.0.role", "system")
        chat.set_attribute("gen_ai.prompt.0.content", "Be brief.")
        chat.set_attribute("gen_ai.prompt.1.role", "user")
        chat.set_attribute("gen_ai.prompt.1.content", "Hello?")
        chat.set_attribute("gen_ai.completion.0.role", "assistant")
        chat.set_attribute("gen_ai.completion.0.content", "Hi.")
        chat.set_attribute("gen_ai.completion.0.finish_reason", "stop")
    trajectory = read(as_lines(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl"))
    assert told(trajectory, "message") == [("user", "Hello?"), ("assistant", "Hi.")]


def test_a_tool_that_fails_and_a_call_that_fails_are_told(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    tracer = provider.get_tracer("other")
    with tracer.start_as_current_span("execute_tool rooms") as used:
        used.set_attribute("gen_ai.operation.name", "execute_tool")
        used.set_attribute("gen_ai.tool.name", "rooms")
        used.set_attribute("gen_ai.tool.call.arguments", '{"city": "Oslo"}')
        used.record_exception(TimeoutError("too slow"))
        used.set_status(Status(StatusCode.ERROR))
    with tracer.start_as_current_span("chat gpt") as chat:
        chat.set_attribute("gen_ai.operation.name", "chat")
        chat.set_attribute("error.type", "RateLimitError")
        chat.set_status(Status(StatusCode.ERROR, "try later"))
    first, second = list(read_all(as_lines(list(exporter.get_finished_spans()), tmp_path / "s")))
    call, result = first.trajectory.events
    assert (call.kind, call.data["arguments"]) == ("tool_call", {"city": "Oslo"})
    assert (result.content, result.data["ok"], result.cause) == ("too slow", False, 0)
    (error,) = second.trajectory.events
    assert (error.kind, error.data["type"], error.content) == (
        "error",
        "RateLimitError",
        "try later",
    )
    assert first.name.endswith(f"#{first.trajectory.id}")


def test_evaluations_are_labels_and_nothing_else(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    with provider.get_tracer("other").start_as_current_span("chat gpt") as chat:
        chat.set_attribute("gen_ai.operation.name", "chat")
        chat.set_attribute("gen_ai.input.messages", json.dumps([TASK]))
        chat.set_attribute("gen_ai.output.messages", json.dumps([DONE]))
        chat.set_attribute("app.score", "SECRET")
        graded = {"gen_ai.evaluation.name": "correctness", "gen_ai.evaluation.score.value": 0.0,
                  "gen_ai.evaluation.explanation": "SECRET"}  # fmt: skip
        chat.add_event("gen_ai.evaluation.result", graded)
    trajectory = read(as_lines(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl"))
    (labels,) = trajectory.about["labels"]["spans"].values()
    assert labels["app.score"] == "SECRET"
    assert labels["correctness"]["gen_ai.evaluation.explanation"] == "SECRET"
    assert "SECRET" not in repr([trajectory.events, {**trajectory.about, "labels": None}])


def test_a_file_with_broken_lines_is_read_and_says_so(
    exporter: InMemorySpanExporter, provider: TracerProvider, tmp_path: Path
) -> None:
    chats(provider, ([TASK], DONE))
    path = as_lines(list(exporter.get_finished_spans()), tmp_path / "spans.jsonl")
    path.write_text(path.read_text() + '{"name": "chat", "cont\n')
    trajectory = read(path)
    assert len(trajectory.events) == 2
    assert "line 3" in trajectory.problems[0]
    empty = tmp_path / "empty.json"
    empty.write_text('{"resourceSpans": []}')
    with pytest.raises(TraceError, match="no spans"):
        read(empty)
