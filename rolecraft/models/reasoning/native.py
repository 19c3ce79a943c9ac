"""Reasoning in fields of its own, as providers give it beside the answer.

Every provider has another place for it, and several give the same reasoning in two. The text is
that of the place which says most, whole and in its order. What a provider wants to see again in the
next request (signatures, encrypted items) is kept as it came, and is not for reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KEPT_FIELDS = ("thinking_blocks", "reasoning_details", "reasoning_items")
"""Fields of an assistant's message that go back to the provider unchanged."""

_TEXTS = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thought")
_LISTS = ("reasoning_details", "thinking_blocks", "reasoning_items", "content", "parts", "output")
_NESTED = ("provider_specific_fields", "message", "additional_kwargs", "delta")
# Types of blocks whose text is reasoning. Their text stands in one of `_BLOCK_TEXTS`.
_KINDS = frozenset(
    {"thinking", "reasoning", "thought", "reasoning.text", "reasoning.summary"}
    | {"redacted_thinking", "reasoning.encrypted"}
)
_BLOCK_TEXTS = ("thinking", "text", "summary", "reasoning", "content", "thought")


@dataclass(frozen=True, slots=True)
class NativeReasoning:
    """What a provider gave as reasoning: `text` to read, `kept` to send back."""

    text: str = ""
    kept: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.text or self.kept)


def native_reasoning(message: Any) -> NativeReasoning:
    """The reasoning of an assistant's message, a dict or an object; empty where it has none.

    Reads `reasoning_content` (DeepSeek, vLLM, Qwen, Kimi), `reasoning` (OpenRouter, newer vLLM,
    Groq), `reasoning_details` (OpenRouter, MiniMax), `thinking_blocks` and content blocks of type
    `thinking` and `redacted_thinking` (Anthropic), of type `thinking` with chunks in it (Mistral),
    with a text (Cohere), `reasoningContent` (Bedrock), `parts` with `thought` (Gemini), items of
    type `reasoning` with `summary` and `content` (OpenAI's Responses), and `thinking` (Ollama).
    Fields that the provider wants back are in `kept` under LiteLLM's names for them. What is nested
    deeper than any provider nests it has none.
    """
    try:
        return _native(message)
    except RecursionError:
        return NativeReasoning()


def _native(message: Any) -> NativeReasoning:
    said: list[str] = []
    kept: dict[str, Any] = {}
    if isinstance(message, (list, tuple)):  # content blocks, or the output of a Response
        message = {"content": message}
    elif _fields(message).get("type") in _KINDS:
        message = {"content": [message]}
    for layer in _layers(message):
        for name in _TEXTS:
            value = layer.get(name)
            if isinstance(value, str):
                said.append(value)
            elif isinstance(value, (list, tuple)):
                said.append(_join(_blocks(value, all_are=True)))
        for name in _LISTS:
            value = layer.get(name)
            if isinstance(value, (list, tuple)) and value:
                said.append(_join(_blocks(value, all_are=name in KEPT_FIELDS)))
                for where, items in _to_keep(name, value):
                    kept.setdefault(where, plain(items))
        if layer.get("thought_signatures"):
            kept.setdefault("thought_signatures", plain(layer["thought_signatures"]))
    text = max(said, key=_substance, default="")
    return NativeReasoning(text if _substance(text) else "", kept)


def _to_keep(name: str, items: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """What of a list goes back, and the name of the field that it goes back in."""
    if name in ("reasoning_details", "reasoning_items"):
        yield name, list(items)
        return
    blocks = [(_fields(item).get("type"), item) for item in items]
    # A block that nobody signed proves nothing: providers refuse it, or don't want it.
    thinking = [
        item
        for kind, item in blocks
        if kind == "redacted_thinking" or (kind == "thinking" and _fields(item).get("signature"))
    ]
    if thinking:
        yield "thinking_blocks", thinking
    items_of_response = [
        item
        for kind, item in blocks
        if kind == "reasoning" and {"summary", "encrypted_content"} & _fields(item).keys()
    ]
    if items_of_response:
        yield "reasoning_items", items_of_response
    signatures = [
        signature for _, item in blocks if (signature := _fields(item).get("thoughtSignature"))
    ]
    if signatures:
        yield "thought_signatures", signatures


def _layers(message: Any, depth: int = 3) -> Iterator[Mapping[str, Any]]:
    """The message's fields, and those of the objects in it that hold a provider's own."""
    fields = _fields(message)
    yield fields
    content = fields.get("content")
    inner = [fields.get(name) for name in _NESTED]
    if isinstance(content, Mapping):  # Gemini's `candidate.content`
        inner.append(content)
    for each in inner if depth else ():
        if each is not None and not isinstance(each, (str, list, tuple)):
            yield from _layers(each, depth - 1)


def _fields(thing: Any) -> Mapping[str, Any]:
    if isinstance(thing, Mapping):
        return thing
    extra = getattr(thing, "model_extra", None)
    own = getattr(thing, "__dict__", None) or {}
    return {**own, **extra} if isinstance(extra, Mapping) else own


def _blocks(items: Sequence[Any], *, all_are: bool) -> Iterator[str]:
    """The texts of the blocks that are reasoning; of all blocks where the list is nothing else."""
    for item in items:
        if isinstance(item, str):
            if all_are:
                yield item
            continue
        block = _fields(item)
        bedrock = block.get("reasoningContent") or block.get("reasoning_content")
        if isinstance(bedrock, Mapping):
            inner = bedrock.get("reasoningText") or bedrock.get("reasoning_text") or bedrock
            yield _text(inner)
        elif block.get("thought") is True and isinstance(block.get("text"), str):
            yield block["text"]
        elif all_are or block.get("type") in _KINDS:
            yield _text(block)


def _text(block: Any) -> str:
    """The text of one block. Responses items have parts in `summary`, `content` or both."""
    if isinstance(block, str):
        return block
    if isinstance(block, (list, tuple)):
        return _join(map(_text, block))
    fields = _fields(block)
    thinking = fields.get("thinking")
    if isinstance(thinking, (list, tuple)):  # Mistral's pieces of one text
        return "".join(map(_text, thinking))
    return _join(_text(fields[name]) for name in _BLOCK_TEXTS if fields.get(name))


def _join(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _substance(text: str) -> int:
    return len("".join(text.split()))


def plain(value: Any) -> Any:
    """A copy in the types of JSON, so that it can be recorded."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    fields = _fields(value)
    return plain(fields) if fields else str(value)
