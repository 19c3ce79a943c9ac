"""OpenTelemetry spans of a run, in the semantic conventions for generative AI.

Invariant: every span that was started is ended, with its turn at the latest, and none holds what
was said, asked or answered unless `contents=True`. Spans are made from events and from the
beginnings that only a running program knows (`Beginnings`); the trajectory never depends on them.

The names are those of the semantic conventions 1.44.0, in which the GenAI part is in development;
it goes on in `open-telemetry/semantic-conventions-genai`.

    invoke_workflow ──► invoke_agent, one a turn ──► chat, execute_tool ──► chat within a tool
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rolecraft.errors import MissingExtra
from rolecraft.messages import ALL, USER
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.nesting import may_end

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from rolecraft.trajectories.observer import Directive

SEMANTIC_CONVENTIONS = "1.44.0"
"""The version of the semantic conventions whose names the spans use."""

# LiteLLM's prefixes, where the conventions call the provider otherwise.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
_SAMPLING = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
}


@dataclass(slots=True)
class _Open:
    """A span under way, and the event that it hangs on: a tool's start, a call's cause."""

    span: Span
    role: str
    start: Event | None = None
    cause: int | None = None


class Telemetry:
    """An `Observer` that makes spans: `Team(roles, observers=[Telemetry()])`.

    `workflow` names the whole run; `provider` is a `TracerProvider`, the global one unless given.
    With `contents=True` the spans hold messages, prompts, answers, arguments and results; without,
    none of them, nor the texts of errors. Raises `MissingExtra` without OpenTelemetry.
    """

    def __init__(
        self,
        workflow: str = "team",
        *,
        provider: TracerProvider | None = None,
        contents: bool = False,
    ) -> None:
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise MissingExtra("opentelemetry-sdk", "otel", "Telemetry") from error
        self._trace = trace
        self._tracer: Tracer = trace.get_tracer(
            "rolecraft",
            tracer_provider=provider,
            schema_url=f"https://opentelemetry.io/schemas/{SEMANTIC_CONVENTIONS}",
        )
        self.workflow = workflow
        self.contents = contents
        self._run: Span | None = None
        self._turns: dict[str, Span] = {}
        self._tools: list[_Open] = []
        self._chats: dict[str, _Open] = {}
        """Calls under way, by their conversation."""
        self._actions: dict[str, list[Event]] = {}
        """The actions of each role's turn that have started."""
        self._given: list[dict[str, Any]] = []
        """What was said to the team from outside of any turn."""
        self._sent: dict[str, list[dict[str, Any]]] = {}
        """What each role has sent in its turn."""

    # --- what it is told ---------------------------------------------------------------------

    def on_event(self, event: Event) -> Directive | None:
        match event.kind:
            case "stop":
                self.close()
            case "message" if self.contents:
                self._is_sent(event)
            case "action":
                self._actions.setdefault(event.role, []).append(event)
            case "tool_call":
                self._tool_starts(event)
            case "model_call":
                self._chat_ends(event)
            case _ if may_end(event):
                self._ends(event)
        return None

    def turn_begins(self, role: str) -> None:
        span = self._start(f"invoke_agent {role}", "invoke_agent", self._workflow())
        span.set_attribute("gen_ai.agent.name", role)
        self._turns[role] = span

    def turn_ends(self, role: str, error: BaseException | None = None) -> None:
        """End the turn and whatever of it is still open; it was cut off."""
        kind = type(error).__name__ if error is not None else None
        for session in [name for name, chat in self._chats.items() if chat.role == role]:
            _finish(self._chats.pop(session).span, kind or "_OTHER")
        for tool in [tool for tool in self._tools if tool.role == role]:
            self._tools.remove(tool)
            _finish(tool.span, kind or "_OTHER")
        self._actions.pop(role, None)
        span = self._turns.pop(role, None)
        sent = self._sent.pop(role, None)
        if span is not None:
            if sent:
                span.set_attribute("gen_ai.output.messages", _json(sent))
            _finish(span, kind)

    def call_begins(self, role: str, session: str, model: str, cause: int | None) -> None:
        provider, _, name = model.rpartition("/")
        provider = provider.split("/")[0]
        kinds = self._trace.SpanKind
        span = self._start(
            f"chat {name}",
            "chat",
            self._parent(role, cause),
            kind=kinds.CLIENT if provider else kinds.INTERNAL,
        )
        span.set_attribute(
            "gen_ai.provider.name", _PROVIDERS.get(provider, provider or "rolecraft")
        )
        span.set_attribute("gen_ai.request.model", name)
        span.set_attribute("gen_ai.conversation.id", session)
        action = next((e for e in self._actions.get(role, ()) if e.seq == cause), None)
        if action is not None:
            span.set_attribute("rolecraft.action", str(action.data["action"]))
        self._chats[session] = _Open(span, role, cause=cause)

    def close(self) -> None:
        """End what is open. Called at a run's end; harmless when called twice."""
        for role in list(self._turns):
            self.turn_ends(role)
        if self._run is not None:
            if self._given:
                self._run.set_attribute("gen_ai.input.messages", _json(self._given))
                self._given = []
            self._run.end()
            self._run = None

    # --- spans -------------------------------------------------------------------------------

    def _start(self, name: str, operation: str, parent: Span | None, kind: Any = None) -> Span:
        trace = self._trace
        span = self._tracer.start_span(
            name,
            context=trace.set_span_in_context(parent) if parent is not None else None,
            kind=kind or trace.SpanKind.INTERNAL,
        )
        span.set_attribute("gen_ai.operation.name", operation)
        return span

    def _workflow(self) -> Span:
        if self._run is None:
            self._run = self._start(f"invoke_workflow {self.workflow}", "invoke_workflow", None)
            self._run.set_attribute("gen_ai.workflow.name", self.workflow)
        return self._run

    def _parent(self, role: str, cause: int | None) -> Span | None:
        """The tool in whose run something happens, or the turn."""
        for tool in self._tools:
            if tool.start is not None and tool.role == role and tool.start.seq == cause:
                return tool.span
        return self._turns.get(role) or self._run

    def _tool_starts(self, event: Event) -> None:
        data = event.data
        name = str(data.get("tool", ""))
        parent = self._parent(event.role, event.cause)
        span = self._start(f"execute_tool {name}", "execute_tool", parent)
        span.set_attribute("gen_ai.tool.name", name)
        span.set_attribute("gen_ai.tool.type", "function")
        if data.get("id"):
            span.set_attribute("gen_ai.tool.call.id", str(data["id"]))
        if self.contents:
            span.set_attribute("gen_ai.tool.call.arguments", _json(data.get("arguments", {})))
        self._tools.append(_Open(span, event.role, start=event))

    def _chat_ends(self, event: Event) -> None:
        data = event.data
        chat = self._chats.pop(str(data.get("session", "")), None)
        if chat is None:
            return
        span = chat.span
        span.set_attribute("gen_ai.response.finish_reasons", [str(data.get("finish_reason"))])
        if event.usage is not None:
            span.set_attribute("gen_ai.usage.input_tokens", event.usage.prompt_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", event.usage.completion_tokens)
            if event.usage.usd is not None:
                span.set_attribute("rolecraft.usage.usd", event.usage.usd)
        for setting, value in data.get("sampling", {}).items():
            if setting in _SAMPLING:
                span.set_attribute(_SAMPLING[setting], value)
        if self.contents:
            if "system" in data:
                told = [{"type": "text", "content": data["system"]}]
                span.set_attribute("gen_ai.system_instructions", _json(told))
            asked = [_said(each["role"], each["content"]) for each in data.get("messages", ())]
            span.set_attribute("gen_ai.input.messages", _json(asked))
            answer = {**_said("assistant", event.content), "finish_reason": data["finish_reason"]}
            span.set_attribute("gen_ai.output.messages", _json([answer]))
        span.end()

    def _is_sent(self, event: Event) -> None:
        """A message: it is its role's in a turn, and the team's task or news otherwise."""
        within = event.role in self._turns
        said = _said("assistant" if within else "user", event.content)
        if not within and event.role != USER:
            said["name"] = event.role
        if event.to and ALL not in event.to:
            said["to"] = list(event.to)
        if within:
            self._sent.setdefault(event.role, []).append(said)
        else:
            self._given.append(said)

    def _ends(self, event: Event) -> None:
        """An action or tool has ended; so have the calls of it that were never answered."""
        failed = event.kind in ("error", "limit") or event.data.get("ok") is False
        error = str(event.data.get("type") or event.data.get("limit") or "_OTHER")
        for session, chat in list(self._chats.items()):
            if chat.role == event.role and chat.cause == event.cause:
                _finish(self._chats.pop(session).span, error)
        for tool in self._tools:
            if tool.start is not None and (tool.role, tool.start.seq) == (event.role, event.cause):
                self._tools.remove(tool)
                if self.contents and event.content:
                    tool.span.set_attribute("gen_ai.tool.call.result", event.content)
                _finish(tool.span, error if failed else None)
                return


def _finish(span: Span, error: str | None) -> None:
    """End a span; `error` is the type of what went wrong, never its text."""
    if error is not None:
        from opentelemetry.trace import Status, StatusCode

        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
