"""A streamed answer: what is heard of it as it comes, and all of it at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from rolecraft.models import _litellm
from rolecraft.models.base import Session
from rolecraft.models.reasoning.format import ReasoningFormat
from rolecraft.models.reasoning.split import ReasoningStream
from rolecraft.models.tool_calls.output import ContentPiece, ReasoningPiece, TakenBack

# What grows from piece to piece in an item of `reasoning_details`; the rest is said once.
_GROWING = ("text", "summary", "data")
_IN_PIECES = ("reasoning.text", "reasoning.summary")


class Details:
    """OpenRouter's `reasoning_details`, as a stream brings them.

    LiteLLM leaves out pieces that hold nothing else, the ones with signatures and encrypted items
    among them: so they are taken from what it reads.
    """

    def __init__(self, stream: Any) -> None:
        self._items: list[dict[str, Any]] = []
        raw = getattr(stream, "completion_stream", None)
        if hasattr(raw, "__aiter__") and getattr(stream, "custom_llm_provider", "") in _GIVE_THEM:
            stream.completion_stream = self._heard(raw)

    async def _heard(self, raw: Any) -> AsyncIterator[Any]:
        try:
            async for chunk in raw:
                choices = getattr(chunk, "choices", None)
                if choices:
                    self._add(getattr(choices[0].delta, "reasoning_details", None))
                yield chunk
        finally:
            close = getattr(raw, "aclose", None) or getattr(raw, "close", None)
            if close is not None:
                closing = close()
                if closing is not None:
                    await closing

    def _add(self, items: Any) -> None:
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict):
                continue
            last = self._items[-1] if self._items else {}
            same = all(last.get(name) == item.get(name) for name in ("type", "index"))
            if not (same and item.get("type") in _IN_PIECES):
                self._items.append(last := {})
            for name, value in item.items():
                if name in _GROWING and isinstance(value, str):
                    pieces = last.setdefault(name, [])
                    pieces.append(value)
                elif value is not None:
                    last[name] = value

    def put_into(self, message: Any) -> None:
        """Make them a field of the whole message."""
        if self._items:
            message.reasoning_details = [
                {
                    name: "".join(value) if name in _GROWING and isinstance(value, list) else value
                    for name, value in item.items()
                }
                for item in self._items
            ]


_GIVE_THEM = frozenset({"openrouter", "minimax"})


class Listening:
    """Hands the pieces of a stream on as they come: answer to `on_delta`, thoughts apart."""

    def __init__(self, session: Session, form: ReasoningFormat | str | None) -> None:
        self._session = session
        self._split = ReasoningStream(form) if form is not None else None
        self._thought = self._said = False

    def hear(self, chunk: Any) -> None:
        reasoning, text = read_delta(chunk)
        if reasoning:
            self._think(reasoning)
            if not self._said:
                self._split = None  # the provider tells them apart itself
        if not text:
            return
        if self._split is None:
            self._say(text)
            return
        for piece in self._split.feed(text):
            if isinstance(piece, ContentPiece):
                self._say(piece.text)
            elif isinstance(piece, ReasoningPiece):
                self._think(piece.text)
            elif isinstance(piece, TakenBack):
                self._session.deliver_anew()

    def _think(self, text: str) -> None:
        self._thought = True
        self._session.deliver_reasoning(text)

    def _say(self, text: str) -> None:
        if self._thought and not self._said:
            text = text.lstrip("\n")  # as `read_completion` does
        self._said = self._said or bool(text)
        self._session.deliver(text)


def read_delta(chunk: Any) -> tuple[str, str]:
    """The reasoning and the text in one piece of a stream."""
    choices = getattr(chunk, "choices", None)
    if not choices:
        return "", ""
    delta = choices[0].delta
    reasoning = getattr(delta, "reasoning_content", None)
    text = getattr(delta, "content", None)
    return (
        reasoning if isinstance(reasoning, str) else "",
        text if isinstance(text, str) else "",
    )


def broke_off(stream: Any) -> bool:
    """Whether a stream ended without saying why; LiteLLM makes a reason up, as if all were well."""
    said = ("received_finish_reason", "intermittent_finish_reason")
    return all(getattr(stream, name, None) is None for name in said)


def join_stream(stream: Any, model: str, details: Details) -> Any:
    """The `ModelResponse` that a finished stream of LiteLLM makes up. It may count: use a thread.

    Its usage is what the provider said, as for an answer in one piece: LiteLLM's own guess, where
    the provider said nothing, is left out. Its price is LiteLLM's, where it knows one.
    """
    litellm = _litellm.load()
    response = litellm.stream_chunk_builder(stream.chunks)
    said = [usage for chunk in stream.chunks if (usage := getattr(chunk, "usage", None))]
    if response is None:
        return None
    response.usage = said[-1] if said else None
    details.put_into(response.choices[0].message)
    _signatures_of(stream.chunks, response.choices[0].message)
    if said:
        try:
            cost = litellm.completion_cost(completion_response=response, model=model)
        except Exception:  # LiteLLM's bare `Exception` for a model that it has no price for
            cost = None
        response._hidden_params = {**response._hidden_params, "response_cost": cost}
    return response


def _signatures_of(chunks: list[Any], message: Any) -> None:
    """All of Gemini's thought signatures: of what a stream repeats, LiteLLM keeps the last."""
    every = [
        signature
        for chunk in chunks
        if getattr(chunk, "choices", None)
        for signature in (
            getattr(chunk.choices[0].delta, "provider_specific_fields", None) or {}
        ).get("thought_signatures", ())
    ]
    if every:
        own = getattr(message, "provider_specific_fields", None) or {}
        message.provider_specific_fields = {**own, "thought_signatures": every}
