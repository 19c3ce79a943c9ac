"""How a local model's answers are read: its reasoning counts whether tools are offered or not."""

from __future__ import annotations

import pytest

from rolecraft.models._reading import AnswerReader
from rolecraft.models.base import Tool
from rolecraft.models.reasoning import split_reasoning
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.models.tool_calls import ContentPiece, Piece, ReasoningPiece

TOOLS = [[], [Tool(name="run", parameters={"type": "object"})]]


def reader(parser: str, reasoning: str | None) -> AnswerReader:
    tokenizer = tiny_chat_model().tokenizer
    ends = frozenset({tokenizer.eos_token_id})
    return AnswerReader(tokenizer, ends, name="m", template="", parser=parser, reasoning=reasoning)


@pytest.mark.parametrize("tools", TOOLS)
def test_reasoning_none_means_that_nothing_is(tools: list[Tool]) -> None:
    output = reader("hermes", "none").read("<think>a</think>b", tools, "")
    assert (output.reasoning, output.content) == ("", "<think>a</think>b")


@pytest.mark.parametrize("tools", TOOLS)
def test_a_format_that_was_named_is_the_one_that_is_read(tools: list[Tool]) -> None:
    output = reader("hermes", "thought").read("<thought>a</thought>b", tools, "")
    assert (output.reasoning, output.content) == ("a", "b")


@pytest.mark.parametrize("tools", TOOLS)
def test_a_prompt_that_opens_the_block_of_a_named_format_is_seen(tools: list[Tool]) -> None:
    output = reader("qwen3_coder", "seed_oss").read("a</seed:think>b", tools, "…<seed:think>")
    assert (output.reasoning, output.content) == ("a", "b")


@pytest.mark.parametrize("reasoning", ["auto", None])
@pytest.mark.parametrize("tools", TOOLS)
def test_without_a_known_format_it_is_what_an_answer_begins_with(
    tools: list[Tool], reasoning: str | None
) -> None:
    reading = reader("hermes", reasoning)
    text = "<think>\nTwo.\n</think>\n\nFour."
    output = reading.read(text, tools, "")
    # As `LiteLLMModel` reads it, which leaves out the line breaks before the answer as well.
    split = split_reasoning(text)
    assert (output.reasoning, output.content.strip()) == (split.reasoning, "Four.")
    assert reading.read("Two.</think>Four.", tools, "a<think>\n").reasoning == "Two."
    pieces: list[Piece] = []
    feed = reading.listener(tools, "", pieces.append)
    for char in text:
        feed(char)
    said = "".join(p.text for p in pieces if isinstance(p, ContentPiece))
    thought = "".join(p.text for p in pieces if isinstance(p, ReasoningPiece))
    assert (thought, said) == (output.reasoning, output.content)


@pytest.mark.parametrize("text", ["\n", "Four.\n", "A <think> opens.", "<thi"])
def test_an_answer_that_begins_with_no_thought_is_left_as_it_is(text: str) -> None:
    output = reader("hermes", None).read(text, [], "")
    assert (output.reasoning, output.content) == ("", text)


def test_special_tokens_are_no_text_but_for_markers_of_thoughts() -> None:
    reading = reader("hermes", None)
    tokenizer = reading._tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "<|im_start|>"]})
    ids = tokenizer("<|im_start|><think>a</think>b<|im_end|>").input_ids
    assert reading.decode(ids, reading.reader([])) == "<think>a</think>b"


def test_a_call_that_is_quoted_in_a_thought_of_a_named_format_is_none() -> None:
    call = '<tool_call>{"name": "run", "arguments": {}}</tool_call>'
    output = reader("hermes", "thought").read(f"<thought>{call}</thought>{call}", TOOLS[1], "")
    assert (len(output.tool_calls), output.reasoning) == (1, call)
