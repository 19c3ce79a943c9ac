"""Harmony: what a message of gpt-oss is depends on its channel and its recipient."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import ParsedOutput, get_parser


def parse(text: str, tools: Any = None, **how: Any) -> ParsedOutput:
    return get_parser("gpt_oss").parse(text, tools, **how)


CALL = ToolCall("f", {"a": 1})


def test_calls_are_written_as_they_follow_the_start_of_the_turn() -> None:
    text = get_parser("gpt_oss").render([CALL, CALL])
    assert text == (
        '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>'
        "<|start|>assistant"
        '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>'
    )
    assert parse(text).tool_calls == [CALL, CALL]
    with pytest.raises(UsageError, match="'two words' cannot be called"):
        get_parser("gpt_oss").render([ToolCall("two words", {})])


def test_each_channel_is_what_it_is_for() -> None:
    output = parse(
        "<|channel|>analysis<|message|>Hm.<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>I'll look. <|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.f<|message|>{"a": 1}<|call|>'
        "<|start|>assistant<|channel|>final<|message|>Done.<|return|>"
    )
    assert output == ParsedOutput("I'll look. Done.", "Hm.", [CALL], [])


@pytest.mark.parametrize(
    "head",
    [
        "<|channel|>commentary to=functions.f <|constrain|>json",
        "<|channel|>commentary to=functions.f json",
        "<|channel|>commentary to=f",
        "<|channel|>analysis to=functions.f",
        "<|channel|>final to=functions.f",
        "<|start|>assistant<|channel|>commentary to=functions.f",
        "<|start|>assistant to=functions.f<|channel|>commentary",
        " to=functions.f<|channel|>commentary <|constrain|>json",
        "assistant to=functions.f<|channel|>commentary",
        "commentary to=functions.f",
        "<|start|>assistant to=functions.f",
    ],
)
@pytest.mark.parametrize("end", ["<|call|>", "<|end|>", "<|return|>", ""])
def test_a_recipient_makes_a_call_wherever_it_stands(head: str, end: str) -> None:
    assert parse(f'{head}<|message|>{{"a": 1}}{end}') == ParsedOutput("", "", [CALL], [])


def test_tools_that_are_built_in_keep_their_names_and_programs_are_code() -> None:
    search = '<|channel|>analysis to=browser.search<|message|>{"query": "x"}<|call|>'
    assert parse(search).tool_calls == [ToolCall("browser.search", {"query": "x"})]
    for text, code in (("print({})\n", "print({})\n"), ('{"code": "1"}', "1"), ("{}", "{}")):
        program = f"<|channel|>analysis to=python code<|message|>{text}<|call|>"
        assert parse(program).tool_calls == [ToolCall("python", {"code": code})]
    (cut,) = parse("<|channel|>analysis to=python code<|message|>import os").tool_calls
    assert cut.incomplete


def test_markers_in_strings_are_data() -> None:
    call = ToolCall("f", {"a": "<|call|><|start|>assistant<|channel|>final<|message|>"})
    assert parse(get_parser("gpt_oss").render([call])).tool_calls == [call]


def test_filler_between_messages_is_told_and_is_no_content() -> None:
    text = get_parser("gpt_oss").render([CALL])
    output = parse(f"{text}commentary{text}")
    assert output.tool_calls == [CALL, CALL]
    assert not output.content
    assert [(one.text, one.at) for one in output.diagnostics] == [("commentary", len(text))]


@pytest.mark.parametrize(
    "text", ["Finally, it works.", "final", "to=you", "assistant: hello", "2 < 3", "", " \n"]
)
def test_an_answer_without_messages_is_content(text: str) -> None:
    output = parse(text)
    assert output.content.strip() == text.strip()
    assert not output.diagnostics


def test_text_that_follows_a_message_without_a_head_is_content() -> None:
    output = parse("<|channel|>analysis<|message|>Hm.<|end|>The answer is 4.")
    assert (output.content, output.reasoning) == ("The answer is 4.", "Hm.")


def test_an_answer_may_begin_within_a_message() -> None:
    output = parse("Hm.<|end|><|start|>assistant<|channel|>final<|message|>4", None)
    assert "4" in output.content
    inside = parse(
        "Hm.<|end|><|start|>assistant<|channel|>final<|message|>4", starts_in_reasoning=True
    )
    assert (inside.content, inside.reasoning) == ("4", "Hm.")
    assert parse("final<|message|>4").content == "4"
    assert parse("analysis<|message|>Hm.").reasoning == "Hm."


@pytest.mark.parametrize("cut", ['{"a": ', "", "{"])
def test_a_call_that_breaks_off_is_kept_and_never_executed(cut: str) -> None:
    text = f"<|channel|>commentary to=functions.f<|message|>{cut}"
    (call,) = parse(text).tool_calls
    assert (call.name, call.arguments, call.incomplete, call.raw) == ("f", {}, True, text)
    (call,) = parse("<|channel|>commentary to=functions.f<|mess").tool_calls
    assert call.incomplete


def test_a_malformed_call_takes_no_good_one_with_it() -> None:
    good = get_parser("gpt_oss").render([CALL])
    bad = "<|channel|>commentary to=functions.g<|message|>{oops<|call|>"
    output = parse(f"{good}<|start|>assistant{bad}<|start|>assistant{good}")
    assert output.tool_calls == [CALL, CALL]
    assert [one.kind for one in output.diagnostics] == ["malformed call"]


def test_a_message_that_the_model_wrote_for_someone_else_is_told_and_is_no_content() -> None:
    output = parse(
        "<|channel|>final<|message|>Hi<|end|>"
        "<|start|>functions.f to=assistant<|channel|>commentary<|message|>{}<|end|>"
        "<|start|>user<|message|>More<|end|>"
    )
    assert output.content == "Hi"
    assert not output.tool_calls
    assert [one.kind for one in output.diagnostics] == ["text after calls"] * 2
