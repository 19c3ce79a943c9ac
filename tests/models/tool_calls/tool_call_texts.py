"""Texts and calls to try parsers with, and what holds for any parser and any text.

The markers stand here once more, written from the published grammars, so that a slip in a format's
own file does not hide itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import ParsedOutput, get_parser, parser_names

HERMES = ("<tool_call>", "</tool_call>", '<tool_call>\n{"name": "', '", "arguments": {', "}}")
DEEPSEEK = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
)
GLM = ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
LLAMA = ("<|python_tag|>", '{"name": "', '", "parameters": {', "}}", "; ", "<|eom_id|>")
PYTHONIC = ("[f(", "a=", "b='", "')]", ")]", ", g(", "<|python_start|>", "<|python_end|>", "f(")
MARKERS: dict[str, tuple[str, ...]] = {
    "hermes": HERMES,
    "qwen": (*HERMES, "✿FUNCTION✿: ", "✿ARGS✿: ", "✿RESULT✿", "✿RETURN✿"),
    "longcat": ("<longcat_tool_call>", "</longcat_tool_call>", *HERMES[2:], "<longcat_think>"),
    "deepseek_v3": (*DEEPSEEK, "function", "\n```json\n", "\n```"),
    "deepseek_v3_1": DEEPSEEK,
    "kimi_k2": (
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "functions.f:0",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ),
    "llama3_json": LLAMA,
    "llama4_json": LLAMA,
    "llama4_pythonic": PYTHONIC,
    "pythonic": PYTHONIC,
    "mistral": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", '[{"name": "', "f{", "[THINK]", "[/THINK]"),
    "glm45": GLM,
    "glm47": GLM,
    "qwen3_coder": (
        "<tool_call>\n",
        "<function=f>\n",
        "<parameter=a>\n",
        "\n</parameter>\n",
        "</function>",
        "\n</tool_call>",
    ),
    "gpt_oss": (
        "<|start|>assistant",
        "<|channel|>",
        "analysis",
        "commentary",
        "final",
        " to=functions.f ",
        "<|constrain|>json",
        "<|message|>",
        "<|end|>",
        "<|call|>",
        "<|return|>",
    ),
}
"""Of each format the pieces that its grammar is made of."""
EVERY_MARKER = sorted({marker for markers in MARKERS.values() for marker in markers})
FORMATS = parser_names()

THINKING = ("<think>", "</think>", "<think>\n", "\n</think>\n\n")
JSON = (
    "{",
    "}",
    "[",
    "]",
    '"',
    "\\",
    '\\"',
    ":",
    ",",
    "'",
    "null",
    "true",
    "True",
    "None",
    "-1.5e3",
    "{}",
    '{"a": 1}',
    '{"name": "f", "arguments": {"a": "b"}}',
    '{"name": "g", "parameters": {}}',
    '{"a": "\\u00e9\\ud83d\\ude00", "b": [1, {"c": null}]}',
    "{'a': True}",
    '"a": "b", ',
    '{"a": ',
    "[1, 2",
    "\\ud800",
    "\\u12",
    "```",
)
CODE = (
    "    def f(x):\n        return x < 1 and x > 0\n",
    "if a < b: print('</parameter>')\n",
    "d = {1: [2]}  # ]]}}",
    "x = '''</tool_call>'''",
    "<b>&lt;&amp;</b>",
    "a && b || c > d",
)
ODD = ("", " ", "\n", "\r\n", "\t", "\x00", "\ud800", "\udfff", "\u2028", "😀", "北京", "é", "｜")


def texts(form: str) -> st.SearchStrategy[str]:
    """Texts made of a format's own markers, those of others, JSON, code, and odd characters."""
    own = st.sampled_from(MARKERS.get(form, EVERY_MARKER))
    part = st.one_of(
        own,
        own,
        st.sampled_from(JSON),
        st.sampled_from(CODE + ODD),
        st.sampled_from(THINKING),
        st.sampled_from(EVERY_MARKER),
        # The head of a marker, cut anywhere.
        st.builds(lambda marker, at: marker[:at], own, st.integers(1, 12)),
        st.text(max_size=8),
        st.text(alphabet=st.characters(categories=["Cs", "Cc", "Lo"]), max_size=3),
        st.builds(lambda calls: get_parser(form).render(calls), calls(form, most=2)),
    )
    return st.lists(part, max_size=14).map("".join)


# Calls that a format can write.

NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,15}", fullmatch=True)
SPEAKING = st.one_of(
    st.text(max_size=30),
    st.sampled_from(CODE + JSON + ODD + THINKING),
    st.lists(st.sampled_from((*EVERY_MARKER, *CODE, *JSON, "\n", " ")), max_size=5).map("".join),
)
"""Strings of arguments: any Unicode, code, JSON, and the markers of every format."""
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from((0, -1, 2**53 + 1, -(2**64), 10**30)),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, SPEAKING),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(SPEAKING, inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = {
    # A parameter of Python is an identifier, a keyword too: models write `from=1`.
    **dict.fromkeys(("pythonic", "llama4_pythonic"), NAMES),
    # Tags hold a name; JSON holds any string.
    **dict.fromkeys(
        ("glm45", "glm47", "qwen3_coder"),
        st.from_regex(r"[a-zA-Z_$][a-zA-Z0-9_.$-]{0,15}", fullmatch=True),
    ),
}


def calls(form: str, *, most: int = 3) -> st.SearchStrategy[list[ToolCall]]:
    keys = KEYS.get(form, st.one_of(NAMES, SPEAKING))
    call = st.builds(
        lambda name, arguments: ToolCall(name, arguments),
        NAMES,
        st.dictionaries(keys, VALUES, max_size=3),
    )
    return st.lists(call, min_size=1, max_size=most)


def tools_for(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Tools whose schemas say of each argument what it is. Calls of one name share a tool."""
    properties: dict[str, dict[str, list[Any]]] = {}
    for call in calls:
        known = properties.setdefault(call.name, {})
        for key, value in call.arguments.items():
            known.setdefault(key, []).append(value)
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {key: _schema(values) for key, values in known.items()},
                },
            },
        }
        for name, known in properties.items()
    ]


def typed_alike(calls: Sequence[ToolCall]) -> bool:
    """Whether no argument is of two types: then its schema says what its text means."""
    types: dict[tuple[str, str], set[str]] = {}
    for call in calls:
        for key, value in call.arguments.items():
            types.setdefault((call.name, key), set()).add(_type(value))
    return all(len(found) == 1 for found in types.values())


def _schema(values: list[Any]) -> dict[str, Any]:
    return {"type": _type(values[0])}


def _type(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")


# What holds of any parser.


def whole(form: str, text: str, **how: Any) -> ParsedOutput:
    return get_parser(form).parse(text, **how)


def in_pieces(form: str, pieces: Sequence[str], **how: Any) -> ParsedOutput:
    stream = get_parser(form).stream(**how)
    for piece in pieces:
        stream.feed(piece)
    return stream.finish()


def chunks(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def words(text: str) -> list[str]:
    """Words that no escape of JSON runs into."""
    return re.findall(r"(?<![\\\w])[^\W_]{3,}(?![\w])", text)


def everything(output: ParsedOutput) -> str:
    """All text that came out, one part a line."""
    parts = [output.content or "", output.reasoning or ""]
    parts += [diagnostic.text for diagnostic in output.diagnostics]
    for call in output.tool_calls:
        parts += [call.name, call.id, call.raw, _leaves(call.arguments)]
    return "\n".join(parts)


def _leaves(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}\n{_leaves(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "\n".join(map(_leaves, value))
    return value if isinstance(value, str) else json.dumps(value)
