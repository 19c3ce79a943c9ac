"""The engine, seen through the simplest format: text, reasoning and calls in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Tool
from rolecraft.models.tool_calls import (
    CallPiece,
    ContentPiece,
    Diagnostic,
    ParsedOutput,
    ReasoningPiece,
    get_parser,
)

HERMES = get_parser("hermes")
A = '<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>'
B = '<tool_call>{"name": "b"}</tool_call>'


def calls(text: str, **how: bool | None) -> list[tuple[str, dict[str, object]]]:
    return [(call.name, call.arguments) for call in HERMES.parse(text, **how).tool_calls]


def test_text_around_calls_is_content_and_white_space_between_them_is_not() -> None:
    output = HERMES.parse(f"Before {A}\n{B}  after\n")
    assert output.content == "Before   after\n"
    assert output.tool_calls == [ToolCall("a", {"x": 1}), ToolCall("b", {})]
    assert output.diagnostics == []


def test_pieces_come_as_soon_as_they_are_certain() -> None:
    stream = HERMES.stream()
    assert list(stream.feed("See <")) == [ContentPiece("See ")]
    assert list(stream.feed("b> or <tool_c")) == [ContentPiece("<b> or ")]
    assert list(stream.feed('all>{"name": "a", "arg')) == []
    assert list(stream.feed('uments": {}}')) == [CallPiece(0, ToolCall("a", {}))]
    assert list(stream.feed("</tool_call>")) == []
    assert stream.finish() == ParsedOutput("See <b> or ", "", [ToolCall("a", {})])
    with pytest.raises(UsageError, match="finished"):
        stream.feed("more")


def test_what_finishing_makes_certain_is_told_then() -> None:
    stream = HERMES.stream()
    assert list(stream.feed("<think>so </th")) == [ReasoningPiece("so ")]
    stream.finish()
    assert list(stream.pieces) == [ReasoningPiece("</th")]


def test_a_cut_off_call_is_flagged_and_its_text_kept() -> None:
    raw = '<tool_call>{"name": "rm", "arguments": {"path": "/ho'
    output = HERMES.parse(f"ok {raw}")
    assert output.tool_calls == [ToolCall("rm", {}, incomplete=True, raw=raw)]
    assert output.content == f"ok {raw}"
    assert output.diagnostics == [
        Diagnostic("incomplete call", raw, at=3, why="the text ends within it")
    ]


@pytest.mark.parametrize("end", range(1, len("\n</tool_call>") + 1))
def test_a_call_whose_end_marker_was_cut_off_is_whole(end: int) -> None:
    output = HERMES.parse(A[:-end])
    assert (output.content, output.tool_calls) == ("", [ToolCall("a", {"x": 1})])


def test_a_malformed_call_takes_no_neighbour_with_it_and_stays_in_the_text() -> None:
    bad = '<tool_call>{"name": "c", "arguments": {"q": </tool_call>'
    output = HERMES.parse(A + bad + B)
    assert [call.name for call in output.tool_calls] == ["a", "b"]
    assert output.content == bad
    (found,) = output.diagnostics
    assert (found.kind, found.text, found.at) == ("malformed call", bad, len(A))


def test_markers_in_strings_are_data() -> None:
    text = "</tool_call><tool_call><think></think>`<|im_end|>"
    written = HERMES.render([ToolCall("echo", {"text": text})])
    assert HERMES.parse(written + B).tool_calls == [
        ToolCall("echo", {"text": text}),
        ToolCall("b", {}),
    ]


def test_a_string_that_is_never_closed_hides_no_later_call() -> None:
    assert calls(f'<tool_call>{{"name": "c</tool_call>{A} "') == [("a", {"x": 1})]


def test_text_after_the_arguments_is_no_content() -> None:
    output = HERMES.parse('<tool_call>{"name": "a"}} yes</tool_call> done')
    assert (output.content, len(output.tool_calls)) == (" done", 1)
    assert output.diagnostics == [
        Diagnostic("text in a call", "} yes", at=24, why="it stands after the arguments")
    ]


def test_a_call_quoted_in_closed_reasoning_is_none() -> None:
    output = HERMES.parse(f"<think>Shall I {A}?</think>{B}")
    assert output.reasoning == f"Shall I {A}?"
    assert output.tool_calls == [ToolCall("b", {})]


def test_a_call_ends_reasoning_that_is_never_closed() -> None:
    output = HERMES.parse(f"<think>I shall. {A}\n<think>And {B}")
    assert output.reasoning == "I shall. And "
    assert [call.name for call in output.tool_calls] == ["a", "b"]


def test_an_answer_may_start_in_reasoning() -> None:
    text = f"Hm, {B}.</think>{A}"
    assert calls(text, starts_in_reasoning=True) == [("a", {"x": 1})]
    assert calls(text) == [("b", {}), ("a", {"x": 1})]
    assert HERMES.parse(text).content == "Hm, .</think>"


def test_markers_at_the_end_of_a_turn_are_no_content() -> None:
    assert HERMES.parse(f"{A}<|im_end|>\n").content == ""
    assert HERMES.parse("Done.<|endoftext|>").content == "Done."
    assert HERMES.parse("<s>gone</s> kept").content == "<s>gone</s> kept"


def test_a_call_of_a_tool_that_was_not_offered_is_told_apart() -> None:
    for tool in (Tool(name="a"), {"type": "function", "function": {"name": "a"}}, {"name": "a"}):
        output = HERMES.parse(A + B, [tool])  # type: ignore[list-item]
        assert output.tool_calls == [ToolCall("a", {"x": 1})]
        (found,) = output.diagnostics
        assert (found.kind, found.text, found.call) == (
            "unknown tool", B.removesuffix("</tool_call>"), ToolCall("b", {}),
        )  # fmt: skip
    with pytest.raises(UsageError, match="A tool is a `Tool`, a function with `@tool`, or a dict"):
        HERMES.parse(A, ["a"])  # type: ignore[list-item]


REPAIRS = [
    ('{"name": "a", "arguments": {"x": 1,}}', "trailing comma"),
    ('{"name": "a", "arguments": {"x": 1}', "missing brace"),
    ("{'name': 'a', 'arguments': {'x': 1}}", "single quotes"),
    ('{"name": "a", "arguments": "{\\"x\\": 1}"}', "arguments as string"),
    ('```json\n{"name": "a", "arguments": {"x": 1}}\n```', "code fence"),
    ('{name: "a", arguments: {x: 1}}', "unquoted key"),
]


@pytest.mark.parametrize(("body", "repair"), REPAIRS)
def test_repairs_are_named_and_can_be_switched_off(body: str, repair: str) -> None:
    text = f"<tool_call>{body}</tool_call>"
    assert HERMES.parse(text).tool_calls == [ToolCall("a", {"x": 1}, repairs=(repair,))]
    strict = get_parser("hermes", repair=False).parse(text + B)
    assert strict.tool_calls == [ToolCall("b", {})]
    assert [found.kind for found in strict.diagnostics] == ["malformed call"]
    assert strict.content == text


def test_values_of_other_languages_are_mended() -> None:
    body = "{'name': 'a', 'arguments': {'on': True, 'no': None, 'code': 'x\ny'}}"
    (call,) = HERMES.parse(f"<tool_call>{body}</tool_call>").tool_calls
    assert call.arguments == {"on": True, "no": None, "code": "x\ny"}
    assert set(call.repairs) == {"single quotes", "python literals", "raw newline"}


@pytest.mark.parametrize(
    "body",
    ["", "null", "7", '"a"', "[]", '{"arguments": {}}', '{"name": 7}', '{"name": ""}',
     '{"name": "a", "arguments": [1]}', '{"name": "a", "arguments": "soon"}', "not JSON"],
)  # fmt: skip
def test_what_names_no_call_is_malformed(body: str) -> None:
    text = f"<tool_call>{body}</tool_call>"
    output = HERMES.parse(text)
    assert (output.tool_calls, output.content) == ([], text)
    assert [found.kind for found in output.diagnostics] == ["malformed call"]


@pytest.mark.parametrize(
    "unit",
    [
        '<tool_call>{"',
        "<tool_call>{'",
        '<tool_call>{"a\\": \'',
        '<tool_call>{"a": ["<tool_call>", ',
        "<think><tool_call>",
        '<tool_call>{"name": "a"} ',
        "<tool_call>{\"'",
        "`<think>`</think>",
    ],
)
def test_calls_that_never_end_are_not_read_again_and_again(growth: Any, unit: str) -> None:
    def parses(times: int) -> Callable[[], object]:
        text = unit * times
        return lambda: HERMES.parse(text)

    growth(parses, 2_000, 16_000, at_most=25)  # 8 if linear, 64 if quadratic


UNKNOWN = {
    "hermes": '<tool_call>{"name": "two", "arguments": {"a": 2}}</tool_call>',
    "llama3_json": '{"name": "two", "parameters": {"a": 2}}',
    "pythonic": "[two(a=2)]",
}


@pytest.mark.parametrize("form", UNKNOWN)
def test_a_call_of_a_tool_that_was_not_offered_is_a_diagnostic_or_a_call_in_its_place(
    form: str,
) -> None:
    one = get_parser(form).render([ToolCall("one", {"a": 1})])
    three = get_parser(form).render([ToolCall("one", {"a": 3})])
    text = f"{one} {UNKNOWN[form]} {three}"
    tools = [{"name": "one", "parameters": {}}]
    diagnosed = get_parser(form).parse(text, tools)
    assert [call.arguments for call in diagnosed.tool_calls] == [{"a": 1}, {"a": 3}]
    assert [found.kind for found in diagnosed.diagnostics] == ["unknown tool"]
    called = get_parser(form, unknown_tools="call").parse(text, tools)
    assert [(call.name, call.arguments) for call in called.tool_calls] == [
        ("one", {"a": 1}),
        ("two", {"a": 2}),
        ("one", {"a": 3}),
    ]
    assert not called.diagnostics
    assert not called.content.strip()


def test_what_is_html_elsewhere_ends_a_turn_of_mistral_alone() -> None:
    assert HERMES.parse("Write <s>old</s>").content == "Write <s>old</s>"
    assert get_parser("mistral").parse("Done.</s>").content == "Done."


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_stays_the_word_that_it_is(word: str) -> None:
    text = f'<tool_call>{{"name": "a", "arguments": {{"x": {word}}}}}</tool_call>'
    (call,) = HERMES.parse(text).tool_calls
    assert call.arguments == {"x": word}
    assert call.repairs == ("number as string",)
    strict = get_parser("hermes", repair=False).parse(text)
    assert not strict.tool_calls
    assert [found.kind for found in strict.diagnostics] == ["malformed call"]
