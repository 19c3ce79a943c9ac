"""One message, in the many forms in which frameworks write it.

`read_message` knows the forms of OpenAI (chat and Responses), Anthropic, Gemini, LangChain,
OpenTelemetry and OpenInference, and makes one of them all: who said it, and its parts in order.
Invariant: it never raises; what is no message gives None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Side = Literal["system", "user", "assistant", "tool", "named"]

_SIDES: dict[str, Side] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
}
_REASONING = ("reasoning_content", "reasoning", "thinking", "thought")
_NOT_SHOWN = ("image", "audio", "video", "file", "document", "input_image", "input_audio", "blob")


@dataclass(slots=True)
class Part:
    """A piece of a message. `text` is what was said, thought or returned."""

    kind: Literal["text", "thought", "call", "result"]
    text: str = ""
    name: str = ""
    """The tool's, of calls and results."""
    id: str = ""
    arguments: Any = None
    ok: bool | None = None


@dataclass(slots=True)
class Said:
    """A message. `name` is the speaker's, where the format gives one."""

    side: Side
    parts: list[Part] = field(default_factory=list)
    name: str = ""
    to: tuple[str, ...] = ()
    """Whom it is for, where the format says so."""

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.kind == "text")


def as_text(value: Any) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return str(type(value).__name__)


def as_arguments(value: Any) -> Any:
    """Arguments of a call: JSON in a text is read, a text that is none stays a text."""
    if not isinstance(value, str):
        return {} if value is None else value
    try:
        read = json.loads(value) if value.strip() else {}
    except (ValueError, RecursionError):
        return value
    return read if isinstance(read, (dict, list)) else value


def looks_like_message(value: Any) -> bool:
    """True for what `read_message` reads, other than a bare text."""
    if not isinstance(value, dict):
        return False
    if _inner(value) is not None:
        return True
    if isinstance(value.get("role"), str):
        known = value["role"].lower() in _SIDES
        return known or bool({"content", "parts", "tool_calls"} & value.keys())
    if value.get("lc") == 1 or _type(value) in _ITEMS:
        return True
    return _type(value).lower() in _SIDES and bool({"content", "data"} & value.keys())


def read_message(value: Any) -> Said | None:
    """A message; None for what is none."""
    if not looks_like_message(value):
        return None
    inner = _inner(value)
    if inner is not None:
        return read_message(inner)
    if value.get("lc") == 1:
        name = value.get("id") or [""]
        kind = _CLASSES.get(str(name[-1]).removesuffix("Chunk")) if isinstance(name, list) else None
        kwargs = value.get("kwargs")
        if kind is None or not isinstance(kwargs, dict):
            return None
        return read_message({**kwargs, "type": kind})
    if _type(value) in _ITEMS and "role" not in value:
        return _item(value)
    if "role" not in value and isinstance(value.get("data"), dict):
        return read_message({**value["data"], "type": value["type"]})
    return _message(value)


def _type(value: Mapping[str, Any]) -> str:
    kind = value.get("type")
    return kind if isinstance(kind, str) else ""


def _inner(value: Mapping[str, Any]) -> Any:
    """The message that an object wraps: a choice, a generation, a span's attribute."""
    inner = value.get("message")
    if "role" in value or not isinstance(inner, dict) or "message" in inner:
        return None
    return inner if looks_like_message(inner) else None


def _message(value: Mapping[str, Any]) -> Said:
    written = str(value.get("role") or value.get("type") or "")
    side = _SIDES.get(written.lower(), "named")
    name = value.get("name") if isinstance(value.get("name"), str) else ""
    said = Said(side, name=written if side == "named" else name or "")
    if isinstance(value.get("to"), list):
        said.to = tuple(map(str, value["to"]))
    extra = value.get("additional_kwargs")
    more = {**extra, **value} if isinstance(extra, dict) else value
    if side == "tool" and "parts" not in value:
        said.parts = [_result(value)]
        return said
    for key in _REASONING:
        if isinstance(more.get(key), str) and more[key]:
            said.parts.append(Part("thought", more[key]))
            break
    for key in ("content", "contents", "parts"):
        said.parts += _contents(value.get(key))
    if side == "tool" and not any(part.kind == "result" for part in said.parts):
        said.parts = [Part("result", said.text)]
    refusal = more.get("refusal")
    if isinstance(refusal, str) and refusal:
        said.parts.append(Part("text", refusal))
    known = {part.id for part in said.parts if part.kind == "call" and part.id}
    calls = value.get("tool_calls") or more.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        part = _call(call)
        if part is not None and part.id not in known:
            said.parts.append(part)
    if isinstance(more.get("function_call"), dict):
        said.parts.append(_call(more["function_call"]) or Part("call"))
    if any(part.kind == "result" for part in said.parts) and side in ("user", "tool"):
        said.side = "tool" if all(part.kind == "result" for part in said.parts) else side
    return said


def _contents(value: Any) -> Iterator[Part]:
    """The parts of a message's content: a text, a block, or a list of them."""
    if value is None or value == "":
        return
    for block in value if isinstance(value, list) else [value]:
        if isinstance(block, str):
            yield Part("text", block)
        elif isinstance(block, dict):
            yield from _block(block)
        else:
            yield Part("text", as_text(block))


def _block(block: Mapping[str, Any]) -> Iterator[Part]:
    inner = block.get("message_content")
    if isinstance(inner, dict):
        block = inner
    kind = str(block.get("type") or "")
    if kind in ("tool_call", "tool_use", "function_call", "server_tool_use"):
        part = _call(block)
        if part is not None:
            yield part
    elif kind in ("tool_call_response", "tool_result", "function_response", "function_call_output"):
        yield _result(block)
    elif isinstance(block.get("functionCall"), dict):
        yield _call(block["functionCall"]) or Part("call")
    elif isinstance(block.get("functionResponse"), dict):
        yield _result(block["functionResponse"])
    elif kind in ("reasoning", "thinking", "thought"):
        yield Part("thought", _first_text(block, "content", "text", "thinking", "reasoning"))
    elif kind.startswith(_NOT_SHOWN):
        yield Part("text", f"[{kind}]")
    else:
        keys = ("text", "content", "refusal", "output_text")
        text = _first_text(block, *keys)
        if text or not any(isinstance(block.get(key), str) for key in keys):
            yield Part("text", text or as_text(dict(block)))


def _first_text(block: Mapping[str, Any], *keys: str) -> str:
    return next((block[key] for key in keys if isinstance(block.get(key), str)), "")


def _call(value: Any) -> Part | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("tool_call"), dict):
        value = {**value, **value["tool_call"]}
    function = value.get("function") if isinstance(value.get("function"), dict) else value
    arguments = next(
        (function[key] for key in ("arguments", "args", "input", "kwargs") if key in function), None
    )
    name = function.get("name") or value.get("name") or ""
    call = value.get("id") or value.get("call_id") or value.get("tool_call_id") or ""
    if value.get("type") == "function_call" and value.get("call_id"):
        call = value["call_id"]  # of a Responses item, whose `id` is the item's own
    return Part("call", name=str(name), id=str(call), arguments=as_arguments(arguments))


def _result(value: Mapping[str, Any]) -> Part:
    keys = ("tool_call_id", "call_id", "tool_use_id", "id")
    content = next(
        (value[key] for key in ("content", "response", "result", "output", "contents")
         if value.get(key) is not None),
        None,
    )  # fmt: skip
    if isinstance(content, list):
        parts = list(_contents(content))
        text = "\n".join(part.text for part in parts)
    else:
        text = as_text(content)
    failed = value.get("is_error") is True or value.get("status") == "error"
    return Part(
        "result",
        text,
        name=str(value.get("name") or ""),
        id=str(next((value[key] for key in keys if value.get(key)), "")),
        ok=False if failed else None,
    )


_ITEMS = frozenset(
    {
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "mcp_call",
    }
)
"""Items of OpenAI's Responses that are no messages with a role."""


def _item(value: Mapping[str, Any]) -> Said:
    kind = str(value["type"])
    if kind == "reasoning":
        texts = [
            part.text
            for key in ("summary", "content")
            for part in _contents(value.get(key))
            if part.text
        ]
        return Said("assistant", [Part("thought", "\n".join(texts))] if texts else [])
    if kind.endswith("_output"):
        return Said("tool", [_result(value)])
    if kind in ("function_call", "custom_tool_call"):
        part = _call({**value, "type": "function_call"})
    else:
        skipped = {"type", "id", "status", "output", "results"}
        given = {key: each for key, each in value.items() if key not in skipped}
        part = Part("call", name=kind, id=str(value.get("id") or ""), arguments=given)
    return Said("assistant", [] if part is None else [part])
