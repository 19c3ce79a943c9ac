"""Spans of a run say what the GenAI conventions say, belong together, and keep secrets."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, StatusCode

from rolecraft import Action, Limits, Role, Team
from rolecraft.actions import tool
from rolecraft.errors import LimitReached, MissingExtra
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, FunctionModel, Sampling, ScriptedModel
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.telemetry import SEMANTIC_CONVENTIONS, Telemetry

SECRET = "the plans of the harbour"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


class Spans:
    """Finished spans by name, and whose child each is."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self.all: tuple[ReadableSpan, ...] = exporter.get_finished_spans()
        self.by_id = {span.context.span_id: span for span in self.all}

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def parent(self, span: ReadableSpan) -> str:
        return self.by_id[span.parent.span_id].name if span.parent is not None else ""

    @property
    def texts(self) -> str:
        return " ".join(span.to_json() for span in self.all)


class Ask(Action):
    async def run(self, history) -> str:
        sampling = Sampling(max_tokens=9, stop=("x",))
        return await self.ask(f"About {history[-1].content}?", sampling=sampling)


@tool
async def lookup(word: str) -> str:
    """Look a word up."""
    if word == "bad":
        raise ValueError(SECRET)
    return f"{SECRET}: {word}"


def asking(word: str) -> list[Completion]:
    call = ToolCall("lookup", {"word": word}, "call-1")
    usage = Usage(7, 3, 0.5)
    return [
        Completion(text="", tool_calls=[call], usage=usage, finish_reason="tool_calls"),
        Completion(text="done", usage=usage),
    ]


async def run(
    roles: list[Role], model: Any, provider: TracerProvider, *, contents: bool = False, **more: Any
) -> None:
    telemetry = Telemetry("harbour", provider=provider, contents=contents)
    team = Team(roles, model=model, observers=[telemetry], **more)
    await team.run(SECRET)


async def test_a_run_is_a_workflow_of_turns_of_chats(exporter, provider):
    model = ScriptedModel(
        [Completion(text=SECRET, usage=Usage(7, 3, 0.5))], name="openai/gpt-4o-mini"
    )
    await run([Role(name="Ann", actions=[Ask])], model, provider)
    spans = Spans(exporter)
    assert [span.name for span in spans.all] == [
        "chat gpt-4o-mini",
        "invoke_agent Ann",
        "invoke_workflow harbour",
    ]
    chat, turn, workflow = spans.all
    assert spans.parent(chat) == "invoke_agent Ann"
    assert spans.parent(turn) == "invoke_workflow harbour"
    assert workflow.parent is None
    assert len({span.context.trace_id for span in spans.all}) == 1
    assert chat.kind is SpanKind.CLIENT
    conversation = chat.attributes["gen_ai.conversation.id"]
    assert str(conversation).startswith("Ann/")
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.conversation.id": conversation,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.stop_sequences": ("x",),
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "rolecraft.action": "Ask",
        "rolecraft.usage.usd": 0.5,
    }
    assert dict(turn.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Ann",
    }
    assert turn.start_time <= chat.start_time <= chat.end_time <= turn.end_time


async def test_tools_are_spans_of_their_turn_and_say_when_they_fail(exporter, provider):
    model = ScriptedModel(asking("rain"))
    await run([Role(name="Ann", tools=[lookup])], model, provider)
    spans = Spans(exporter)
    used = spans.one("execute_tool lookup")
    assert spans.parent(used) == "invoke_agent Ann"
    assert used.attributes["gen_ai.tool.name"] == "lookup"
    assert used.attributes["gen_ai.tool.type"] == "function"
    assert used.attributes["gen_ai.tool.call.id"] == "call-1"
    assert used.status.status_code is StatusCode.UNSET
    exporter.clear()
    await run([Role(name="Ann", tools=[lookup])], ScriptedModel(asking("bad")), provider)
    failed = Spans(exporter).one("execute_tool lookup")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "ValueError"


async def test_nothing_that_was_said_is_in_a_span_unless_it_is_asked_for(exporter, provider):
    for word in ("rain", "bad"):
        await run([Role(name="Ann", tools=[lookup])], ScriptedModel(asking(word)), provider)
    with pytest.raises(RuntimeError):
        await run(
            [Role(name="Ann", actions=[Ask])], ScriptedModel([RuntimeError(SECRET)]), provider
        )
    assert Spans(exporter).all
    assert SECRET not in Spans(exporter).texts


async def test_contents_can_be_asked_for(exporter, provider):
    await run(
        [Role(name="Ann", tools=[lookup])], ScriptedModel(asking("rain")), provider, contents=True
    )
    spans = Spans(exporter)
    used = spans.one("execute_tool lookup")
    assert json.loads(used.attributes["gen_ai.tool.call.arguments"]) == {"word": "rain"}
    assert used.attributes["gen_ai.tool.call.result"] == f"{SECRET}: rain"
    last = spans.named("chat scripted")[-1]
    (answer,) = json.loads(last.attributes["gen_ai.output.messages"])
    assert answer == {
        "role": "assistant",
        "parts": [{"type": "text", "content": "done"}],
        "finish_reason": "stop",
    }
    asked = json.loads(spans.named("chat scripted")[0].attributes["gen_ai.input.messages"])
    assert asked[-1]["parts"][0]["content"]


async def test_what_is_sent_is_in_the_span_of_its_turn(exporter, provider):
    model = ScriptedModel(["First.", "Second."])
    ben = Role(name="Ben", actions=[Ask], watch=[])
    await run([Role(name="Ann", actions=[Ask]), ben], model, provider, contents=True)
    spans = Spans(exporter)
    given = json.loads(spans.one("invoke_workflow harbour").attributes["gen_ai.input.messages"])
    assert given == [{"role": "user", "parts": [{"type": "text", "content": SECRET}]}]
    sent = json.loads(spans.one("invoke_agent Ann").attributes["gen_ai.output.messages"])
    assert [message["parts"][0]["content"] for message in sent] == ["First."]


async def test_a_call_that_fails_ends_its_span_with_the_type_of_the_error(exporter, provider):
    with pytest.raises(RuntimeError):
        await run([Role(name="Ann", actions=[Ask])], ScriptedModel([RuntimeError("no")]), provider)
    spans = Spans(exporter)
    for name in ("chat scripted", "invoke_agent Ann"):
        assert spans.one(name).attributes["error.type"] == "RuntimeError"
        assert spans.one(name).status.status_code is StatusCode.ERROR
    assert spans.named("invoke_workflow harbour")


async def test_a_crossed_limit_is_an_error_of_the_turn(exporter, provider):
    with pytest.raises(LimitReached):
        await run(
            [Role(name="Ann", actions=[Ask])],
            ScriptedModel(["x"]),
            provider,
            limits=Limits(calls=0),
        )
    assert Spans(exporter).one("invoke_agent Ann").attributes["error.type"] == "LimitReached"


async def test_roles_that_act_together_have_turns_side_by_side(exporter, provider):
    together = asyncio.Barrier(2)

    async def answer(call) -> str:
        await together.wait()
        return "ok"

    roles = [Role(name=name, actions=[Ask]) for name in ("Ann", "Bob")]
    await run(roles, FunctionModel(answer), provider)
    spans = Spans(exporter)
    chats = spans.named("chat function")
    assert {spans.parent(chat) for chat in chats} == {"invoke_agent Ann", "invoke_agent Bob"}
    ann, bob = spans.one("invoke_agent Ann"), spans.one("invoke_agent Bob")
    assert max(ann.start_time, bob.start_time) < min(ann.end_time, bob.end_time)


async def test_a_cancelled_run_leaves_no_span_open(exporter, provider):
    asked = asyncio.Event()

    async def never(call) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    running = asyncio.create_task(
        run([Role(name="Ann", actions=[Ask])], FunctionModel(never), provider)
    )
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {span.name for span in Spans(exporter).all} == {
        "chat function",
        "invoke_agent Ann",
        "invoke_workflow harbour",
    }


async def test_a_replay_makes_no_spans_of_what_is_not_done_again(exporter, provider):
    team = Team([Role(name="Ann", actions=[Ask])], model=ScriptedModel(["x"]))
    recorded = await team.run("rain")
    again = Team([Role(name="Ann", actions=[Ask])], observers=[Telemetry(provider=provider)])
    await again.replay(recorded)
    assert Spans(exporter).all == ()


async def test_telemetry_changes_nothing_in_the_record(provider):
    from rolecraft.trajectories.codec import encode_event

    def team(**more: Any) -> Team:
        return Team([Role(name="Ann", tools=[lookup])], model=ScriptedModel(asking("rain")), **more)

    runs = [await team().run("x"), await team(observers=[Telemetry(provider=provider)]).run("x")]
    plain, observed = ([encode_event(e) for e in run.trajectory.events] for run in runs)
    assert plain == observed


async def test_every_name_is_one_of_the_pinned_conventions(exporter, provider):
    """The conventions' own package: names of attributes, of operations, and the schema."""
    for word in ("rain", "bad"):
        await run(
            [Role(name="Ann", tools=[lookup])], ScriptedModel(asking(word)), provider, contents=True
        )
    known = {
        value
        for name, value in vars(gen_ai_attributes).items()
        if name.startswith("GEN_AI_") and isinstance(value, str)
    } | {error_attributes.ERROR_TYPE}
    used = {name for span in Spans(exporter).all for name in span.attributes}
    assert {name for name in used if not name.startswith("rolecraft.")} <= known
    operations = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    assert {s.attributes["gen_ai.operation.name"] for s in Spans(exporter).all} <= operations
    for span in Spans(exporter).all:
        assert span.name.split(" ")[0] == span.attributes["gen_ai.operation.name"]
        assert span.instrumentation_scope.schema_url == Schemas.V1_44_0.value
        assert span.instrumentation_scope.schema_url.endswith(f"/{SEMANTIC_CONVENTIONS}")


@pytest.mark.parametrize(
    ("model", "provider_name", "name"),
    [
        ("openai/gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("gemini/gemini-2.5-pro", "gcp.gemini", "gemini-2.5-pro"),
        ("bedrock/anthropic/claude", "aws.bedrock", "claude"),
        ("together_ai/meta/llama", "together_ai", "llama"),
        ("scripted", "rolecraft", "scripted"),
    ],
)
async def test_providers_have_the_conventions_names(exporter, provider, model, provider_name, name):
    await run([Role(name="Ann", actions=[Ask])], ScriptedModel(["x"], name=model), provider)
    chat = Spans(exporter).one(f"chat {name}")
    assert chat.attributes["gen_ai.provider.name"] == provider_name


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtra, match=r"'\.\[otel\]'"):
        Telemetry()
