"""Formats with JSON in them: Qwen, LongCat, DeepSeek, Kimi, Mistral, Llama."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import ParsedOutput, get_parser


def parse(name: str, text: str, tools: Any = None, **how: Any) -> ParsedOutput:
    return get_parser(name, **how).parse(text, tools)


def named(output: ParsedOutput) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in output.tool_calls]


def kinds(output: ParsedOutput) -> list[str]:
    return [found.kind for found in output.diagnostics]


ONE, TWO = ToolCall("get_weather", {"city": "Oslo"}), ToolCall("say", {"text": 'a "b" {c}'})
WRITTEN = {
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    "qwen": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    "longcat": (
        '<longcat_tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}'
        "</longcat_tool_call>"
    ),
    "deepseek_v3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "deepseek_v3_1": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Oslo"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "kimi_k2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        '<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "mistral": '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}',
    "llama3_json": '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
    "llama4_json": '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
    "llama": '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
}


@pytest.mark.parametrize(("name", "written"), WRITTEN.items())
def test_calls_are_written_as_the_templates_write_them_and_read_back(
    name: str, written: str
) -> None:
    parser = get_parser(name)
    assert parser.render([ONE]) == written
    both = parser.parse(f"Let me see.{parser.render([ONE, TWO])}")
    assert named(both) == [(call.name, call.arguments) for call in (ONE, TWO)]
    assert (both.content, both.diagnostics) == ("Let me see.", [])
    assert parser.parse(parser.render([])) == ParsedOutput()


@pytest.mark.parametrize("name", ["deepseek_v3", "deepseek_v3_1", "kimi_k2", "mistral"])
def test_a_name_that_could_not_be_read_back_is_not_written(name: str) -> None:
    with pytest.raises(UsageError, match="'two words' cannot be called in this format"):
        get_parser(name).render([ToolCall("two words", {})])
    odd = ToolCall("mcp__a/b.c-d:é", {})
    assert named(parse(name, get_parser(name).render([odd]))) == [(odd.name, {})]


def test_the_old_format_of_qwen_agent() -> None:
    text = 'So.\n✿FUNCTION✿: get_weather\n✿ARGS✿: {"city": "Oslo"}\n✿FUNCTION✿: now\n✿ARGS✿: {}\n'
    output = parse("qwen", f"{text}✿RESULT✿: 7 °C\n✿RETURN✿: It is cold.")
    assert named(output) == [("get_weather", {"city": "Oslo"}), ("now", {})]
    assert output.content == "So.\n It is cold."
    assert [(found.kind, found.text) for found in output.diagnostics] == [
        ("text after calls", " 7 °C\n")
    ]
    cut = parse("qwen", '✿FUNCTION✿: get_weather\n✿ARGS✿: {"city": "Os').tool_calls[0]
    assert (cut.name, cut.incomplete) == ("get_weather", True)
    assert kinds(parse("qwen", "✿FUNCTION✿: what is this? <tool_call>")) == [
        "malformed call",
        "incomplete call",
    ]


def test_deepseek_reads_both_of_its_dialects_in_one_section() -> None:
    for name in ("deepseek_v3", "deepseek_v3_1"):
        output = parse(
            name,
            "x<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜><｜tool▁call▁end｜>\n"
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>b\n```json\n\n```<｜tool▁call▁end｜>"
            '<｜tool▁call▁begin｜>c<｜tool▁sep｜>"{\\"x\\": 1}"<｜tool▁call▁end｜>'
            '<｜tool▁call▁begin｜>d<｜tool▁sep｜>{"x":<｜tool▁call▁end｜>'
            '<｜tool▁call▁begin｜>e<｜tool▁sep｜>{"x": 2}',
        )
        assert named(output) == [("a", {}), ("b", {}), ("c", {"x": 1}), ("e", {"x": 2})]
        assert output.tool_calls[2].repairs == ("arguments as string",)
        assert (output.content, kinds(output)) == ("x", ["malformed call"])


def test_what_stands_in_or_after_a_section_is_no_content() -> None:
    section = WRITTEN["kimi_k2"].replace(
        "<|tool_calls_section_end|>", "bye<|tool_calls_section_end|>"
    )
    output = parse("kimi_k2", f"Hi.{section}<|im_end|>Anything else?")
    assert output.content == "Hi."
    assert [found.text for found in output.diagnostics] == ["bye", "<|im_end|>Anything else?"]
    assert parse("kimi_k2", WRITTEN["kimi_k2"] + "<|im_end|>").diagnostics == []


def test_kimi_keeps_its_ids() -> None:
    parser = get_parser("kimi_k2")
    calls = [ToolCall("a.b", {}, id="functions.a.b:7"), ToolCall("c", {}, id="call_1")]
    read = parser.parse(parser.render(calls)).tool_calls
    assert [(call.name, call.id) for call in read] == [
        ("a.b", "functions.a.b:7"),
        ("c", "functions.c:1"),
    ]


def test_kimis_headers() -> None:
    def text(header: str, arguments: str) -> str:
        return (
            f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
        )

    tools = [
        {"name": "a", "parameters": {"properties": {"x": {}}, "required": ["x"]}},
        {"name": "b", "parameters": {"properties": {"y": {}, "z": {}}}},
    ]
    assert named(parse("kimi_k2", text("a:12 \n", "{}"))) == [("a", {})]
    assert kinds(parse("kimi_k2", text("functions.a.0", "{}"))) == ["malformed call"]
    for header, arguments, expected, repair in (
        ("functions.a", "{}", "a", "missing index"),
        ("0", '{"x": 1}', "a", "name from arguments"),
        ("3", '{"z": 1}', "b", "name from arguments"),
    ):
        (call,) = parse("kimi_k2", text(header, arguments), tools).tool_calls
        assert (call.name, call.id, call.repairs) == (expected, header, (repair,))
        assert named(parse("kimi_k2", text(header, arguments), tools, repair=False)) == []
    assert named(parse("kimi_k2", text("0", '{"w": 1}'), tools)) == []
    assert named(parse("kimi_k2", text("0", "{}"), tools)) == []


@pytest.mark.parametrize(
    ("text", "call_id"),
    [
        ('[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"a": "[TOOL_CALLS]"}', "abcdefghi"),
        ('[TOOL_CALLS] f[ARGS] {"a": "[TOOL_CALLS]"}', ""),
        ('[TOOL_CALLS]f{"a": "[TOOL_CALLS]"}', ""),
        ('[TOOL_CALLS][TOOL_CALLS] [{"name":"f","arguments":{"a":"[TOOL_CALLS]"},"id":"9"}]', "9"),
        ('[TOOL_CALLS] {"name": "f", "arguments": {"a": "[TOOL_CALLS]"}}', ""),
    ],
)
def test_mistrals_dialects(text: str, call_id: str) -> None:
    output = parse("mistral", f"Well {text} then")
    assert output.tool_calls == [ToolCall("f", {"a": "[TOOL_CALLS]"}, call_id)]
    assert (output.content, output.diagnostics) == ("Well  then", [])


def test_a_nameless_call_of_mistral_takes_no_other_with_it() -> None:
    text = 'bash[TOOL_CALLS]{"command": "ls"}[TOOL_CALLS]submit[ARGS]{"answer": {"nested": 1}}'
    output = parse("mistral", text)
    assert named(output) == [("submit", {"answer": {"nested": 1}})]
    assert output.content == 'bash[TOOL_CALLS]{"command": "ls"}'
    assert kinds(output) == ["malformed call"]


def test_mistrals_ids_are_nine_letters_and_digits() -> None:
    parser = get_parser("mistral")
    calls = [ToolCall("a", {}, id="abcDEF123"), ToolCall("b", {}, id="functions.b:0")]
    kept, made = (call.id for call in parser.parse(parser.render(calls)).tool_calls)
    assert kept == "abcDEF123"
    assert len(made) == 9
    assert made.isalnum()


@pytest.mark.parametrize("name", ["llama", "llama3_json"])
def test_llamas_json(name: str) -> None:
    one, two = '{"name": "a", "parameters": {"x": ";"}}', '{"name": "b", "arguments": null}'
    for text in (
        f"{one}; {two}", f"{one}\n{two}", f"<|python_tag|>{one};{two}<|eom_id|>", f"[{one}, {two}]",
    ):  # fmt: skip
        output = parse(name, text)
        assert named(output) == [("a", {"x": ";"}), ("b", {})]
        assert (output.content, output.diagnostics) == ("", [])


@pytest.mark.parametrize("name", ["llama", "llama3_json"])
@pytest.mark.parametrize(
    "text",
    [
        'The config is {"debug": true, "level": 3}.',
        '{"name": "Ann", "age": 30}',
        "{{{ [[ {} [] { } {a} [1] [{}]",
        '{"name": "run", "parameters": 3}',
        '{"outer": {"name": "run", "parameters": {}}}',
    ],
)
def test_other_json_is_text(name: str, text: str) -> None:
    assert parse(name, text) == ParsedOutput(text)


def test_code_for_an_interpreter_is_text() -> None:
    assert parse("llama3_json", "<|python_tag|>print(1)") == ParsedOutput("<|python_tag|>print(1)")
    assert parse("llama", "<|python_tag|>print(1)").content == "<|python_tag|>print(1)"


def test_llamas_json_names_a_tool_that_was_offered_or_is_text() -> None:
    text = '{"name": "Ann", "parameters": {}}'
    output = parse("llama3_json", text, [{"name": "run"}])
    assert (output.content, output.tool_calls, kinds(output)) == (text, [], ["unknown tool"])


def test_llama_reads_both_kinds_of_calls() -> None:
    output = parse("llama", 'I do [a(x=1)] and {"name": "b", "parameters": {}}.')
    assert named(output) == [("a", {"x": 1}), ("b", {})]
    assert output.content == "I do  and ."


def test_braces_that_are_never_closed_are_not_read_again_and_again() -> None:
    """Every nested start of a value that fails would fail at the same place."""
    nested = '{"name": ' * 3000
    output = parse("llama3_json", f'{nested} and {{"name": "a", "parameters": {{}}}}')
    assert named(output) == [("a", {})]
