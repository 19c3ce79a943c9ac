"""GLM 4.5 and 4.7: pairs of `<arg_key>` and `<arg_value>`; values keep every character."""

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
                "properties": {
                    "code": {"type": "string"},
                    "n": {"type": "integer"},
                    "opts": {"type": "object"},
                },
                "required": ["code"],
            },
        },
    },
    {"type": "function", "function": {"name": "now", "parameters": {}}},
]


def parse(text: str, tools: Any = TOOLS, **how: Any) -> ParsedOutput:
    return get_parser("glm47", **how).parse(text, tools)


def pair(key: str, value: str) -> str:
    return f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>"


def arguments(text: str, **how: Any) -> list[dict[str, Any]]:
    return [call.arguments for call in parse(text, **how).tool_calls if not call.incomplete]


def test_both_generations_read_both_layouts_and_write_their_own() -> None:
    call = ToolCall("run", {"code": "x", "n": 2})
    spread = (
        "<tool_call>run\n<arg_key>code</arg_key>\n<arg_value>x</arg_value>\n"
        "<arg_key>n</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
    )
    dense = f"<tool_call>run{pair('code', 'x')}{pair('n', '2')}</tool_call>"
    assert get_parser("glm45").render([call]) == spread
    assert get_parser("glm47").render([call]) == dense
    for name in ("glm45", "glm47"):
        for text in (spread, dense):
            assert get_parser(name).parse(text, TOOLS).tool_calls == [call]


@pytest.mark.parametrize(
    "value",
    [
        "    indented\n",
        "\n\nx",
        "&lt;/arg_value&gt; &amp;",
        "a </arg_value> b",
        "print('</arg_value>')\n</arg_value>",
        "<arg_value>",
        "<think>no thought</think>",
        "x < y",
        "",
    ],
)
def test_a_string_keeps_every_character(value: str) -> None:
    assert arguments(f"<tool_call>run{pair('code', value)}</tool_call>") == [{"code": value}]


@pytest.mark.parametrize(
    "value",
    [
        "</arg_value><arg_key>n</arg_key><arg_value>2",
        "</arg_value></tool_call>",
        "</tool_call><tool_call>run",
        "<\u2060/arg_value>",
        "<\u2060\u2060arg_key></arg_value>\n\n<arg_key>",
    ],
)
def test_what_a_value_cannot_hold_is_written_with_a_joiner_and_read_without(value: str) -> None:
    call = ToolCall("run", {"code": value, "n": 1})
    text = get_parser("glm47").render([call, call])
    assert "<\u2060" in text
    assert parse(text).tool_calls == [call, call]


def test_blanks_around_other_values_count_for_nothing() -> None:
    text = f"<tool_call>run{pair('n', ' 2 ')}{pair('opts', chr(10) + '{}')}</tool_call>"
    assert arguments(text) == [{"n": 2, "opts": {}}]


@pytest.mark.parametrize("text", ["<tool_call>now</tool_call>", "<tool_call>now\n</tool_call>"])
def test_a_call_may_have_no_arguments(text: str) -> None:
    assert arguments(text) == [{}]


def test_a_name_may_stand_in_quotes() -> None:
    assert arguments(f'<tool_call>"run"{pair(chr(34) + "code" + chr(34), "x")}</tool_call>') == [
        {"code": "x"}
    ]


def test_line_breaks_that_were_escaped_are_blanks_before_the_arguments() -> None:
    text = "<tool_call>run\\n<arg_key>code</arg_key>\\n<arg_value>x</arg_value>\\n</tool_call>"
    output = parse(text)
    assert output.tool_calls == [
        ToolCall("run", {"code": "x"}, repairs=("escaped newline",)),
    ]
    assert not parse(text, repair=False).tool_calls


def test_a_value_without_its_end_ends_before_the_next_parameter_of_the_tool() -> None:
    text = "<tool_call>run<arg_key>code</arg_key><arg_value>ls" + pair("n", "2") + "</tool_call>"
    (call,) = parse(text).tool_calls
    assert (call.arguments, call.repairs) == ({"code": "ls", "n": 2}, ("missing </arg_value>",))
    assert [one.kind for one in parse(text, repair=False).diagnostics] == ["malformed call"]


def test_a_pair_of_a_name_that_is_no_parameter_is_part_of_the_value() -> None:
    inner = f"see {pair('colour', 'red')} there"
    assert arguments(f"<tool_call>run{pair('code', inner)}</tool_call>") == [{"code": inner}]


def test_the_end_may_be_missing_where_the_answer_ends_and_nothing_required_is() -> None:
    good = f"<tool_call>run{pair('code', 'ls')}"
    for end in ("", "\n", "<|observation|>", "<|endoftext|>"):
        (call,) = parse(good + end).tool_calls
        assert (call.arguments, call.incomplete) == ({"code": "ls"}, False)
    for cut in (
        f"<tool_call>run{pair('n', '1')}",
        "<tool_call>run<arg_key>code</arg_key><arg_value>ls",
        "<tool_call>run",
        good[:-3],
    ):
        (call,) = parse(cut).tool_calls
        assert (call.name, call.arguments, call.incomplete, call.raw) == ("run", {}, True, cut)


def test_a_malformed_call_takes_no_good_one_with_it() -> None:
    good = f"<tool_call>run{pair('code', 'a')}</tool_call>"
    for bad in (
        "<tool_call>run what<arg_key></tool_call>",
        "<tool_call>run<arg_key>code<arg_value>x</arg_value></tool_call>",
        '<tool_call>{"name": "run"}</tool_call>',
        "<tool_call></tool_call>",
    ):
        output = parse(f"{good} {bad} {good}")
        assert [call.arguments for call in output.tool_calls] == [{"code": "a"}] * 2, bad
        assert output.content.strip() == bad.strip()
        assert [one.kind for one in output.diagnostics] == ["malformed call"]
