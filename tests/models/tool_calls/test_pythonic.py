"""Calls in Python's way: literals only, whatever the text is cut like and however deep it nests."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import ParsedOutput, get_parser
from rolecraft.models.tool_calls.python_literals import MOST_DEEP, NotLiteral, python_literal

TOOLS: list[dict[str, Any]] = [
    {"name": "run", "parameters": {"properties": {"cmd": {}, "n": {}, "opts": {}}}},
    {"name": "now", "parameters": {}},
]
LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)


def parse(text: str, tools: Any = None, **how: Any) -> ParsedOutput:
    return get_parser("pythonic", **how).parse(text, tools)


def value(text: str) -> Any:
    """The value of `x` in `[f(x=text)]`."""
    (call,) = parse(f"[f(x={text})]").tool_calls
    assert not call.incomplete
    return call.arguments["x"]


@given(LITERALS)
def test_what_python_writes_is_read(written: Any) -> None:
    assert repr(value(repr(written))) == repr(written)
    assert repr(python_literal(repr(written))) == repr(written)


@pytest.mark.parametrize(
    "text",
    [
        r"'\x41\u00e9\U0001F600\101\n\t\\\'\"\a\0'",
        r"'\N{BULLET} \q \8'",
        r"r'\n\x41\''",
        r"u'a' R'\b' 'c'",
        "'''a\n'b' ''c'''",
        '"""a "b" \\""" c"""',
        "''",
        '""""""',
        "'a\\\nb'",
        "-1.5e-3",
        "+7",
        "0x1F",
        "0b1_01",
        "1_000",
        ".5",
        "5.",
        "[1, [2, (3, 4,), ()], {}]",
        "{'a': {1: 2, None: 3}}",
        "(1)",
        "True",
    ],
)
def test_a_literal_means_what_it_means_to_python(text: str) -> None:
    def as_json(meant: Any) -> Any:
        if isinstance(meant, (list, tuple)):
            return [as_json(one) for one in meant]
        if isinstance(meant, dict):
            return {{None: "null"}.get(key, str(key)): as_json(one) for key, one in meant.items()}
        return meant

    # Python warns of escapes that mean nothing, and keeps them.
    assert repr(value(text)) == repr(as_json(ast.literal_eval(text.replace(r"\q \8", r"\\q \\8"))))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("null", None),
        ("true", True),
        ("{1, 2}", [1, 2]),
        ("b'x'", "x"),
        ("1e999", "1e999"),
        ("'a\nb'", "a\nb"),
        ("f'plain'", "plain"),
    ],
)
def test_what_json_has_no_form_for_becomes_what_is_nearest(text: str, meant: Any) -> None:
    assert value(text) == meant


@pytest.mark.parametrize(
    "text",
    ["celsius", "Unit.C", "g()", "1 + 2", "f'{x}'", "[x]", "{[]: 1}", "{1: 2, 3}", "{1, 2: 3}",
     "nan", "'a", "1j", "x[0]", "not True", "lambda: 1", "1" * 500, "", "*a", "= 1"],
)  # fmt: skip
def test_what_is_no_literal_is_no_call_and_stays_in_the_content(text: str) -> None:
    output = parse(f"[f(x={text})]")
    assert not [call for call in output.tool_calls if not call.incomplete]
    assert output.content == f"[f(x={text})]"
    assert output.diagnostics
    with pytest.raises(NotLiteral):
        python_literal(text)


def test_values_may_be_nested_so_deep_and_no_deeper() -> None:
    def nested(deep: int) -> str:
        return f"[f(x={'[' * deep}{']' * deep})]"

    assert len(parse(nested(MOST_DEEP)).tool_calls) == 1
    assert parse(nested(MOST_DEEP + 1)).content == nested(MOST_DEEP + 1)
    assert parse(nested(100_000)).content == nested(100_000)


def test_names_may_be_keywords_dotted_or_any_string() -> None:
    calls = [
        ToolCall("a.b-c", {"from": 1, "class": None}),
        ToolCall("now", {}),
        ToolCall("f", {"x": "]", "odd name": "<|python_end|>", "": [True]}),
    ]
    text = get_parser("pythonic").render(calls)
    assert text.startswith("[a.b-c(from=1, class=None), now(), f(")
    assert parse(text).tool_calls == calls


def test_a_name_that_cannot_be_called_in_python_is_refused() -> None:
    with pytest.raises(UsageError, match="'two words' cannot be called"):
        get_parser("pythonic").render([ToolCall("two words", {})])


def test_arguments_by_position_get_the_names_of_the_schema() -> None:
    (call,) = parse("[run('ls', 2, opts={})]", TOOLS).tool_calls
    assert call.arguments == {"cmd": "ls", "n": 2, "opts": {}}
    for text in ("[run('a', 1, {}, 4)]", "[run('a', cmd='b')]", "[run(n=1, 'a')]"):
        output = parse(text, TOOLS)
        assert not output.tool_calls
        assert [one.kind for one in output.diagnostics] == ["malformed call"]
    assert parse("[g('ls')]").content == "[g('ls')]"


@pytest.mark.parametrize(
    "prose",
    [
        "See [1] and [the page](https://example.org/f(x)).",
        "A list: [a, b], a set {c}, [f(x)], [run] and [run (later)].",
        "[note (it isn't over yet)]",
        "[]",
        "[[f(]",
    ],
)
def test_other_brackets_are_content(prose: str) -> None:
    for tools in (None, TOOLS):
        output = parse(prose, tools)
        assert not output.tool_calls
        assert output.content == prose


def test_text_around_a_list_is_content_and_markers_are_not() -> None:
    for text in (
        "I call [now()] now",
        "I call <|python_start|>[now()]<|python_end|> now",
        "I call <|python_start|>now()<|python_end|> now",
    ):
        output = parse(text)
        assert output.tool_calls == [ToolCall("now", {})]
        assert output.content == "I call  now"


def test_a_list_may_be_spread_over_lines_and_its_end_may_be_missing_with_the_answer() -> None:
    assert parse("[\n  now(),\n  run(\n    n=1,\n  ),\n]").tool_calls == [
        ToolCall("now", {}),
        ToolCall("run", {"n": 1}),
    ]
    assert parse("[now(), run(n=1)").tool_calls[1].repairs == ("missing bracket",)


def test_a_list_that_breaks_off_keeps_its_whole_calls() -> None:
    first, second = parse("[now(), run(cmd='rm -rf /tmp/x").tool_calls
    assert (first.name, first.incomplete) == ("now", False)
    assert (second.name, second.arguments, second.incomplete) == ("run", {}, True)


def test_a_malformed_call_takes_no_good_one_with_it() -> None:
    output = parse("[run(n=1), run(n=oops), run(n=3)] and [run(n=x] and [run(n=5)]")
    assert [call.arguments["n"] for call in output.tool_calls] == [1, 3, 5]
    assert [one.kind for one in output.diagnostics] == ["malformed call"] * 2


def test_raw_line_breaks_in_strings_are_told_and_left_alone_on_request() -> None:
    text = "[run(cmd='a = 1\nb = 2')]"
    (call,) = parse(text).tool_calls
    assert (call.arguments, call.repairs) == ({"cmd": "a = 1\nb = 2"}, ("raw newline",))
    assert not parse(text, repair=False).tool_calls
    assert parse("[run(cmd='''a\nb''')]").tool_calls[0].repairs == ()


def test_a_list_of_functions_that_are_no_tools_is_content_and_told() -> None:
    output = parse("The code is [print(end='')].", TOOLS)
    assert not output.tool_calls
    assert output.content == "The code is [print(end='')]."
    assert [one.kind for one in output.diagnostics] == ["unknown tool"]
