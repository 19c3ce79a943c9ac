"""Qwen3-Coder: code in `<parameter=...>` keeps its indentation, and its markers."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import ParsedOutput, get_parser

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "run",
            "parameters": {
                "type": "object",
                "properties": {"code": {"type": "string"}, "n": {"type": "integer"}},
            },
        },
    }
]
GOOD = "<tool_call>\n<function=run>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>"


def parse(text: str, tools: Any = TOOLS, **how: Any) -> ParsedOutput:
    return get_parser("qwen3_coder", **how).parse(text, tools)


def run(code: str) -> str:
    pair = f"<parameter=code>{code}</parameter>"
    return f"<tool_call>\n<function=run>\n{pair}\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("\nls\n", "ls"),
        ("ls", "ls"),
        ("\n    def f():\n        return 1\n\n", "    def f():\n        return 1\n"),
        ("\n\n", ""),
        ("\n", ""),
        ("", ""),
        ("\n12345\n", "12345"),
        ("\nx = '</parameter>'\ny = 1\n", "x = '</parameter>'\ny = 1"),
        ("\na > b &lt; c\n", "a > b &lt; c"),
        ("\n<parameter=other>\n", "<parameter=other>"),
        ("\n<parameter=code>\n", "<parameter=code>"),
        ("\n</function> and </tool_call> are tags\n", "</function> and </tool_call> are tags"),
        ("\nthe <tool_call> tag\n", "the <tool_call> tag"),
    ],
)
def test_one_line_break_at_each_end_is_not_part_of_a_value_and_all_else_is(
    written: str, value: str
) -> None:
    output = parse(run(written))
    assert [call.arguments for call in output.tool_calls] == [{"code": value}]
    assert not output.diagnostics
    assert not output.content


@pytest.mark.parametrize(
    "value",
    [
        "</parameter>\n</function>\n</tool_call>",
        "</parameter><parameter=n>2",
        f"Write {GOOD} to run it.",
        "<\u2060/parameter>",
        "\n",
        " x\n\n",
    ],
)
def test_every_string_can_be_written_and_read_back(value: str) -> None:
    calls = [ToolCall("run", {"code": value, "n": 3}), ToolCall("run", {"code": value})]
    assert parse(get_parser("qwen3_coder").render(calls)).tool_calls == calls


@pytest.mark.parametrize("value", ["</parameter>\n</function>", "<tool_call>\n<function=f>"])
def test_markers_in_the_json_of_an_object_come_back_too(value: str) -> None:
    tools = [{"name": "f", "parameters": {"properties": {"o": {"type": "object"}}}}]
    calls = [ToolCall("f", {"o": {value: [value]}})]
    assert parse(get_parser("qwen3_coder").render(calls), tools).tool_calls == calls


def test_names_that_cannot_stand_bare_are_written_in_quotes() -> None:
    odd = 'a > "b"\n</parameter>'
    calls = [ToolCall(odd, {odd: "x", " ": "y"})]
    assert parse(get_parser("qwen3_coder").render(calls), None).tool_calls == calls


@pytest.mark.parametrize("name", ['"run"', "'run'", " run ", "run\t"])
def test_a_name_may_have_quotes_and_blanks_around_it(name: str) -> None:
    text = f"<function={name}><parameter= n >1</parameter></function>"
    assert parse(text).tool_calls == [ToolCall("run", {"n": 1})]


def test_the_outer_markers_may_be_missing() -> None:
    inner = GOOD.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")
    for text in (inner, f"{inner}\n</tool_call>", f"<tool_call>\n{inner}", f"{inner}\n{inner}"):
        output = parse(text)
        assert {call.arguments["n"] for call in output.tool_calls} == {1}
        assert not output.content


@pytest.mark.parametrize(
    ("text", "repair"),
    [
        (
            "<function=run>\n<parameter=code>\nls\n<parameter=n>\n2\n</parameter>\n</function>",
            "missing </parameter>",
        ),
        (
            "<tool_call>\n<function=run>\n<parameter=n>2</parameter>\n"
            "<parameter=code>ls\n</function>\n</tool_call>",
            "missing </parameter>",
        ),
        (
            "<tool_call><function=run><parameter=code>ls</parameter>"
            "<parameter=n>2</parameter></tool_call>",
            "missing </function>",
        ),
        (
            "<tool_call><function=run\n<parameter=code>ls</parameter>"
            "<parameter=n>2</parameter></function></tool_call>",
            "missing >",
        ),
        (
            "<tool_call><function=run><parameter=code>ls</parameter><parameter=n>2</parameter>",
            "missing end",
        ),
    ],
)
def test_missing_markers_are_mended_told_and_left_alone_on_request(text: str, repair: str) -> None:
    (call,) = parse(text).tool_calls
    assert call.arguments == {"code": "ls", "n": 2}
    assert call.repairs == (repair,)
    assert not [one for one in parse(text, repair=False).tool_calls if not one.incomplete]


def test_a_value_that_breaks_off_makes_no_call_that_may_be_executed() -> None:
    for cut in ("<parameter=code>\nrm -rf /tmp/x", "<parameter=code>\nx = '</parameter>'\ny", ""):
        text = f"ok <tool_call>\n<function=run>\n{cut}"
        (call,) = parse(text).tool_calls
        assert (call.name, call.arguments, call.incomplete) == ("run", {}, True)
        assert call.raw == text[3:]


@pytest.mark.parametrize(
    "bad",
    [
        "<tool_call>\n{oops}\n</tool_call>",
        "<tool_call>\n<function=>\n</function>\n</tool_call>",
        "<tool_call>\n<function=run>\nwhat?\n</function>\n</tool_call>",
        "<tool_call>\n<function=run>\n<parameter>x</parameter>\n</function>\n</tool_call>",
    ],
)
def test_a_malformed_call_takes_no_good_one_with_it(bad: str) -> None:
    output = parse(f"{GOOD}\n{bad}\n{GOOD}")
    assert [call.arguments for call in output.tool_calls] == [{"n": 1}] * 2
    assert [one.kind for one in output.diagnostics] == ["malformed call"]
    assert bad.strip() in output.content


def test_text_between_calls_is_content() -> None:
    output = parse(f"I'll check two.{GOOD}Between.{GOOD}Done.")
    assert len(output.tool_calls) == 2
    assert output.content == "I'll check two.Between.Done."


def test_a_call_of_a_tool_that_was_not_offered_is_told_and_is_no_call() -> None:
    output = parse(GOOD.replace("run", "walk"))
    assert not output.tool_calls
    (told,) = output.diagnostics
    assert told.kind == "unknown tool"
    assert told.call is not None
    assert told.call.name == "walk"
