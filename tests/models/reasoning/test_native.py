"""What providers give as reasoning beside the answer is read whole, and kept as it came."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rolecraft.models.reasoning import NativeReasoning, native_reasoning

DETAILS = [
    {"type": "reasoning.text", "text": "one", "signature": "S"},
    {"type": "reasoning.summary", "summary": "two"},
    {"type": "reasoning.encrypted", "data": "E"},
]
THINKING = {"type": "thinking", "thinking": "why", "signature": "S"}
REDACTED = {"type": "redacted_thinking", "data": "R"}
ITEM = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
    "encrypted_content": "E",
}

SAID = {
    "DeepSeek, vLLM, Qwen": ({"content": "yes", "reasoning_content": "why"}, "why"),
    "OpenRouter, Groq": ({"content": "yes", "reasoning": "why"}, "why"),
    "OpenRouter's details, all of them": ({"reasoning_details": DETAILS}, "one\n\ntwo"),
    "Anthropic": ({"content": [THINKING, REDACTED, {"type": "text", "text": "yes"}]}, "why"),
    "Anthropic's blocks alone": ([THINKING, {"type": "text", "text": "yes"}], "why"),
    "LiteLLM's blocks": ({"content": "yes", "thinking_blocks": [THINKING, REDACTED]}, "why"),
    "Mistral": (
        {"content": [{"type": "thinking", "thinking": [{"text": "w"}, {"text": "hy"}]},
                     {"type": "text", "text": "yes"}]},
        "why",
    ),
    "Cohere": (
        {"content": [{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "yes"}]},
        "why",
    ),
    "Bedrock": (
        {"content": [{"reasoningContent": {"reasoningText": {"text": "why", "signature": "S"}}},
                     {"text": "yes"}]},
        "why",
    ),
    "Gemini": (
        {"content": {"parts": [{"text": "why", "thought": True}, {"text": "yes"}]}},
        "why",
    ),
    "OpenAI's Responses": (
        {"output": [ITEM, {"type": "message", "content": [{"type": "output_text", "text": "yes"}]}],
         "reasoning": {"effort": "high", "summary": "auto"}},
        "one\n\ntwo",
    ),
    "an item of them": (ITEM, "one\n\ntwo"),
    "Ollama": ({"message": {"content": "yes", "thinking": "why"}}, "why"),
    "a provider's own field": ({"provider_specific_fields": {"reasoning": "why"}}, "why"),
    "an object": (SimpleNamespace(content="yes", reasoning_content="why"), "why"),
}  # fmt: skip


@pytest.mark.parametrize("provider", SAID)
def test_the_reasoning_of_every_provider_is_read(provider):
    message, expected = SAID[provider]
    assert native_reasoning(message).text == expected


@pytest.mark.parametrize(
    "message",
    [
        {"content": "yes"},
        {"content": None, "reasoning_content": None, "reasoning": None, "thinking_blocks": None},
        {"content": [{"type": "text", "text": "yes"}], "reasoning_content": " \n"},
        {"content": {"parts": [{"text": "yes"}]}},
        {"reasoning": {"effort": "high"}},
        {"reasoning_details": [None, 3, {"type": "reasoning.text"}]},
        {},
        None,
        3,
        "text",
        [],
    ],
)
def test_a_message_without_reasoning_has_none(message):
    assert native_reasoning(message).text == ""


def test_what_is_nested_absurdly_deep_raises_nothing():
    deep: list = []
    for _ in range(5000):
        deep = [{"type": "thinking", "thinking": deep}]
    assert native_reasoning({"content": deep}).text == ""


def test_of_two_places_that_hold_the_same_the_one_that_says_most_is_read():
    message = {"reasoning": "one", "reasoning_details": DETAILS}
    assert native_reasoning(message).text == "one\n\ntwo"
    assert native_reasoning({**message, "reasoning": "one, two, and more"}).text.endswith("more")


def test_signed_and_encrypted_things_are_kept_as_they_came_and_unsigned_blocks_are_not():
    assert native_reasoning({"reasoning_details": DETAILS}).kept == {"reasoning_details": DETAILS}
    assert native_reasoning({"content": [THINKING, REDACTED]}).kept == {
        "thinking_blocks": [THINKING, REDACTED]
    }
    assert native_reasoning({"output": [ITEM]}).kept == {"reasoning_items": [ITEM]}
    parts = [{"text": "yes", "thoughtSignature": "T"}]
    assert native_reasoning({"parts": parts}).kept == {"thought_signatures": ["T"]}
    unsigned = {"type": "thinking", "thinking": "why"}
    assert native_reasoning({"thinking_blocks": [unsigned]}) == NativeReasoning("why")


def test_what_is_kept_is_a_copy():
    details = [dict(item) for item in DETAILS]
    kept = native_reasoning({"reasoning_details": details}).kept
    details[0]["text"] = "changed"
    assert kept["reasoning_details"] == DETAILS
