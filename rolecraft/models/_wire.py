"""From a conversation to the JSON of a chat API, and from its answer to a `Completion`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models._failures import AttemptFailed, Failure
from rolecraft.models.base import Completion, FinishReason, Tool
from rolecraft.models.reasoning.format import ReasoningFormat
from rolecraft.models.reasoning.formats import get_format
from rolecraft.models.reasoning.native import NativeReasoning, native_reasoning, plain
from rolecraft.models.reasoning.split import AUTO, split_reasoning
from rolecraft.models.tool_calls.json_calls import Unreadable, arguments_in, decode
from rolecraft.trajectories.events import Usage

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
# Whose models go on thinking after the results of tools, from their own thoughts as text. Others
# refuse a field that they do not know, or take signed and encrypted items instead.
_WANT_TEXT_BACK = frozenset(
    {"deepseek", "moonshot", "minimax", "zai", "dashscope", "hosted_vllm", "xiaomi_mimo"}
)
# What providers call an answer that the model itself ended. LiteLLM gives "stop" for these, and
# also for errors and for whatever it does not know; it then keeps the provider's own word.
_ENDED = frozenset({"stop", "STOP", "end_turn", "stop_sequence", "COMPLETE", "eos", "eos_token"})


def write_messages(
    messages: Sequence[Message], choices: Sequence[str] | None = None, model: str = ""
) -> list[dict[str, Any]]:
    """The messages as a chat API takes them; `choices` become an instruction at the end.

    What `model` gave to be sent back (`Completion.provider_fields`) stands in its messages again.
    Raises `UsageError` for a tool's message that does not say which call it answers.
    """
    written = [_write(message, model) for message in messages]
    if choices:
        listed = "\n".join(choices)
        text = f"Answer with exactly one of the following lines and nothing else:\n{listed}"
        written.append({"role": "user", "content": _encodable(text)})
    return written


def write_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                # A copy: LiteLLM rewrites schemas in place for some providers.
                "parameters": deepcopy(tool.parameters) or {"type": "object", "properties": {}},
            },
        }
        for tool in tools
    ]


def read_completion(
    response: Any,
    model: str = "",
    provider: str = "",
    form: ReasoningFormat | str | None = None,
) -> Completion:
    """What LiteLLM's `ModelResponse` says. Its `usage` is zero where the provider gave none.

    `model` and `provider` are those that were asked, in LiteLLM's words. Where the provider gives
    no reasoning apart, it is looked for in the text by `form`.
    Raises `AttemptFailed` if it holds no answer.
    """
    usage = _usage(response)
    choices = getattr(response, "choices", None) or [None]
    message = getattr(choices[0], "message", None)
    if message is None:
        raise AttemptFailed(Failure(kind="malformed", text="the answer has no choices"), usage)
    finish = _finish(choices[0])
    calls = [
        _read_call(
            getattr(call, "id", None) or f"call_{index}",
            getattr(call, "function", None),
            cut=finish == "length",
        )
        for index, call in enumerate(getattr(message, "tool_calls", None) or ())
    ]
    own = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or own.get("refusal") or ""
    native = native_reasoning(message)
    kept = _kept(message, native, provider)
    reasoning, text = native.text, message.content or refusal
    if form is not None and not reasoning and not refusal:
        reasoning, text = _out_of_text(text, form, cut=finish == "length")
    return Completion(
        text=text.lstrip("\n") if reasoning else text,
        reasoning=reasoning,
        tool_calls=calls,
        usage=usage,
        finish_reason="content_filter" if refusal else finish,
        provider_fields={"model": model, **kept} if kept else {},
    )


def _out_of_text(text: str, form: ReasoningFormat | str, *, cut: bool) -> tuple[str, str]:
    """The reasoning in a text, and the rest of it."""
    split = split_reasoning(text, form)
    if form == AUTO and split.reasoning and not split.content and not cut:
        # A whole answer that opens a block and never closes it speaks of the marker.
        closes = get_format(split.format).closes
        if not any(marker in text for marker in closes):
            return "", text
    return (split.reasoning, split.content) if split.reasoning else ("", text)


def _kept(message: Any, native: NativeReasoning, provider: str) -> dict[str, Any]:
    """What the provider gave to be sent back with the message."""
    kept = dict(native.kept)
    calls = getattr(message, "tool_calls", None) or ()
    own = {
        str(at): plain(fields)
        for at, call in enumerate(calls)
        if (fields := getattr(call, "provider_specific_fields", None))
    }
    if own:
        kept["tool_calls"] = own
    if calls and native.text and provider in _WANT_TEXT_BACK and not native.kept:
        kept["reasoning_content"] = native.text
    return kept


def _write(message: Message, model: str) -> dict[str, Any]:
    role = message.api_role
    written: dict[str, Any] = {"role": role, "content": _encodable(message.content)}
    metadata = message.metadata or {}
    if role == "tool":
        answered = metadata.get("tool_call_id")
        if not answered:
            raise UsageError(
                f"The tool's message {message.content[:80]!r} does not say which call it answers: "
                f"`Message(..., role='tool', metadata={{'tool_call_id': call.id}})`."
            )
        written["tool_call_id"] = answered
    elif role == "assistant" and metadata.get("tool_calls"):
        written["tool_calls"] = [_write_call(call) for call in metadata["tool_calls"]]
        # Some providers refuse an empty text beside tool calls, none refuses null.
        written["content"] = written["content"] or None
    kept = metadata.get("provider_fields")
    if kept and role == "assistant" and kept.get("model") == model:
        _give_back(kept, written)
    return written


def _give_back(kept: dict[str, Any], written: dict[str, Any]) -> None:
    """Put what the provider gave back where LiteLLM looks for it."""
    own = deepcopy({name: value for name, value in kept.items() if name != "model"})
    of_calls = own.pop("tool_calls", {})
    for at, call in enumerate(written.get("tool_calls", ())):
        if str(at) in of_calls:
            call["provider_specific_fields"] = of_calls[str(at)]
    if "thought_signatures" in own:
        signatures = own.pop("thought_signatures")
        written["provider_specific_fields"] = {"thought_signatures": signatures}
    written.update(own)


def _write_call(call: ToolCall) -> dict[str, Any]:
    # An incomplete call goes back with the arguments that could be read, none: several providers
    # refuse a history with broken JSON in it.
    arguments = _encodable(json.dumps(call.arguments, ensure_ascii=False))
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _read_call(call_id: str, function: Any, *, cut: bool) -> ToolCall:
    """A call whose arguments are read, and mended, as those of local models are."""
    name = getattr(function, "name", None) or ""
    raw = getattr(function, "arguments", None) or ""
    if not isinstance(raw, str):
        raw = json.dumps(raw)
    try:
        value, repairs = decode(raw, repair=True, cut=cut) if raw.strip() else ({}, ())
        arguments, mended = arguments_in(value, repair=True)
    except Unreadable:
        return ToolCall(name, {}, call_id, incomplete=True, raw=raw)
    if not name:
        return ToolCall(name, {}, call_id, incomplete=True, raw=raw)
    return ToolCall(name, arguments, call_id, repairs=(*repairs, *mended))


def _finish(choice: Any) -> FinishReason:
    own = getattr(choice, "provider_specific_fields", None) or {}
    said = own.get("native_finish_reason")
    finish = _FINISH.get(choice.finish_reason or "", "unknown")
    if finish == "stop" and said is not None and said not in _ENDED:
        return "unknown"
    return finish


def _usage(response: Any) -> Usage:
    usage = getattr(response, "usage", None)
    hidden = getattr(response, "_hidden_params", None) or {}
    details = getattr(usage, "prompt_tokens_details", None)
    return Usage(
        getattr(usage, "prompt_tokens", None) or 0,
        getattr(usage, "completion_tokens", None) or 0,
        hidden.get("response_cost"),
        cached_tokens=getattr(details, "cached_tokens", None) or 0,
    )


def _encodable(text: str) -> str:
    """`text` as UTF-8 can carry it: halves of a character become U+FFFD, pairs are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
