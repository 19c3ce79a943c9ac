"""How a local model's answers are read: its reasoning counts whether tools are offered or not."""

from __future__ import annotations

import pytest

from rolecraft.models._reading import AnswerReader
from rolecraft.models.base import Tool
from rolecraft.models.tiny_chat import tiny_chat_model

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


def test_a_call_that_is_quoted_in_a_thought_of_a_named_format_is_none() -> None:
    call = '<tool_call>{"name": "run", "arguments": {}}</tool_call>'
    output = reader("hermes", "thought").read(f"<thought>{call}</thought>{call}", TOOLS[1], "")
    assert (len(output.tool_calls), output.reasoning) == (1, call)
