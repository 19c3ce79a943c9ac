"""Spans of tracers that have attributes of their own, under the names of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolecraft.failure_taxonomy.formats._otlp import RawSpan
from rolecraft.failure_taxonomy.formats._said import as_arguments, as_text

_OBSERVATION = "langfuse.observation."
_OPERATIONS = {
    "generation": "chat",
    "agent": "invoke_agent",
    "tool": "execute_tool",
    "retriever": "execute_tool",
}


def renamed(raw: RawSpan) -> dict[str, Any]:
    """A span's attributes; those of Langfuse's SDK (version 3 and later) under GenAI names too."""
    said = dict(raw.attributes)
    kind = as_text(said.get(f"{_OBSERVATION}type")).lower()
    if not kind:
        return said
    operation = _OPERATIONS.get(kind, "" if raw.parent else "invoke_workflow")
    given, returned = said.get(f"{_OBSERVATION}input"), said.get(f"{_OBSERVATION}output")
    names = ("gen_ai.input.messages", "gen_ai.output.messages")
    if operation == "execute_tool":
        names = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
        said.setdefault("gen_ai.tool.name", raw.name)
    elif operation == "invoke_agent":
        said.setdefault("gen_ai.agent.name", raw.name)
    usage = as_arguments(said.get(f"{_OBSERVATION}usage_details"))
    more = {
        "gen_ai.operation.name": operation or kind,
        "gen_ai.request.model": said.get(f"{_OBSERVATION}model.name"),
        names[0]: given,
        names[1]: returned,
    }
    if isinstance(usage, Mapping):
        more["gen_ai.usage.input_tokens"] = usage.get("input")
        more["gen_ai.usage.output_tokens"] = usage.get("output")
    if as_text(said.get(f"{_OBSERVATION}level")) == "ERROR":
        more["error.type"] = as_text(said.get(f"{_OBSERVATION}status_message")) or "error"
    return {**{key: value for key, value in more.items() if value is not None}, **said}
