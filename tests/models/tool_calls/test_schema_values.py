"""Bare text becomes the value that the tool's schema asks for, and nothing is guessed without."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.models.tool_calls import get_parser
from rolecraft.models.tool_calls.schema_values import property_names, property_schema, typed

STRING = {"type": "string"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=10,
)
WORDS = st.sampled_from(
    ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties", "items", "#/a"]
)
SCHEMAS = st.recursive(
    st.booleans()
    | st.sampled_from(["string", "integer", "null", "#", "#/$defs/A"])
    | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("text", ["12345", "true", "null", " x ", '{"a": 1}', "", "\n", "1.0"])
@pytest.mark.parametrize("schema", [STRING, {}, True, {"type": "no such type"}, {"title": "x"}])
def test_text_stays_text_where_the_schema_says_string_or_nothing(text: str, schema: Any) -> None:
    assert typed(text, schema) == (text, ())


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        (" 2 ", {"type": "integer"}, 2),
        ("3.0", {"type": "integer"}, 3),
        ("1e3", {"type": "integer"}, 1000),
        ("1_000", {"type": "integer"}, 1000),
        ("+5", {"type": "int"}, 5),
        ("3.5", {"type": "integer"}, 3.5),  # no integer: the JSON that it is
        ("3.5", {"type": "number"}, 3.5),
        ("7", {"type": "number"}, 7),
        (".5", {"type": "float"}, 0.5),
        ("1e999", {"type": "number"}, "1e999"),
        ("NaN", {"type": "number"}, "NaN"),
        ("Infinity", {"type": "number"}, "Infinity"),
        ("True", {"type": "boolean"}, True),
        ("FALSE", {"type": "bool"}, False),
        ("1", {"type": "boolean"}, True),
        ("yes", {"type": "boolean"}, "yes"),
        ("None", {"type": "null"}, None),
        ("null", {"type": ["string", "null"]}, None),
        ("None", {"type": ["string", "null"]}, "None"),
        ("5", {"type": ["string", "integer"]}, 5),
        ("007", {"type": ["string", "integer"]}, "007"),
        ("007", {"type": "integer"}, 7),
        ("1", {"type": ["integer", "boolean"]}, 1),
        ("1", {"type": ["string", "boolean"]}, "1"),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ('{"a": [1]}', {"type": "dict"}, {"a": [1]}),
        ('{"a": 1}', {"type": ["string", "object"]}, {"a": 1}),
        ("{'a': 1}", {"type": ["string", "object"]}, "{'a': 1}"),
        ("[1, 2]", {"type": "object"}, [1, 2]),
        ('{"a": NaN}', {"type": "object"}, '{"a": NaN}'),
        ("null", {"type": "integer"}, None),
        ("five", {"type": "integer"}, "five"),
        ("٣", {"type": "integer"}, "٣"),
        ("", {"type": "integer"}, ""),
        ("{}", {"properties": {"a": STRING}}, {}),
        ("[]", {"items": STRING}, []),
    ],
)
def test_a_value_is_the_first_type_that_is_allowed_and_fits(
    text: str, schema: Any, value: Any
) -> None:
    found, repairs = typed(text, schema)
    assert repr(found) == repr(value)
    assert not repairs


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("auto", {"enum": ["auto", 1, None, False]}, "auto"),
        (" auto\n", {"enum": ["auto", 1]}, "auto"),
        ("1", {"enum": ["auto", 1]}, 1),
        ("null", {"enum": ["auto", None]}, None),
        ("False", {"enum": ["auto", False]}, False),
        ("1", {"enum": ["1", "2"]}, "1"),
        ("other", {"enum": ["auto", "manual"]}, "other"),
        ("7", {"const": 7}, 7),
        ("7", {"const": "7"}, "7"),
    ],
)
def test_a_value_is_the_allowed_one_that_is_spelt_so(text: str, schema: Any, value: Any) -> None:
    assert repr(typed(text, schema)[0]) == repr(value)


ROOT = {
    "$defs": {
        "Id": {"type": "integer"},
        "Maybe": {"anyOf": [{"$ref": "#/$defs/Id"}, {"type": "null"}]},
        "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "boolean"}]},
        "Self": {"$ref": "#/$defs/Self"},
        "a/b~c": {"type": "number"},
    }
}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", {"$ref": "#/$defs/Id"}, 5),
        ("null", {"$ref": "#/$defs/Maybe"}, None),
        ("5", {"$ref": "#/$defs/Maybe", "description": "or none"}, 5),
        ("true", {"$ref": "#/$defs/Loop"}, True),
        ("true", {"$ref": "#/$defs/Self"}, "true"),
        ("1.5", {"$ref": "#/$defs/a~1b~0c"}, 1.5),
        ("5", {"$ref": "https://example.org/other.json"}, "5"),
        ("5", {"oneOf": [STRING, {"type": "integer"}]}, 5),
        ("5", {"allOf": [{"type": ["integer", "string"]}, STRING]}, "5"),
        ("5.0", {"allOf": [{"type": "number"}, {"type": "integer"}]}, 5),
        ("x", {"anyOf": [{"enum": ["x"]}, {"type": "null"}]}, "x"),
        ("5", {"anyOf": [{"description": "whatever"}, {"type": "null"}]}, "5"),
    ],
)
def test_references_and_combinations_are_followed(text: str, schema: Any, value: Any) -> None:
    assert repr(typed(text, schema, ROOT)[0]) == repr(value)


@pytest.mark.parametrize(
    ("text", "value", "repair"),
    [
        ("{'a': True, 'b': None}", {"a": True, "b": None}, "single quotes"),
        ('{"a": 1,}', {"a": 1}, "trailing comma"),
        ('{"a": "x\ny"}', {"a": "x\ny"}, "raw newline"),
        ('{"a": {"b": 1}', {"a": {"b": 1}}, "missing brace"),
        ("('a', 'b')", ["a", "b"], "python literals"),
        (r"{'a': '\x41'}", {"a": "A"}, "python literals"),
        ('[{\\"id\\": \\"1\\"}]', [{"id": "1"}], "escaped quotes"),
    ],
)
def test_near_json_is_mended_told_and_left_alone_on_request(
    text: str, value: Any, repair: str
) -> None:
    schema = {"type": ["object", "array"]}
    found, repairs = typed(text, schema)
    assert found == value
    assert repair in repairs
    assert typed(text, schema, repair=False) == (text, ())


@given(st.text(max_size=20) | ANYTHING.map(json.dumps), SCHEMAS)
def test_no_text_and_no_schema_raises(text: str, schema: Any) -> None:
    value, repairs = typed(text, schema)
    json.dumps(value, allow_nan=False)
    assert isinstance(repairs, tuple)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()) | st.lists(st.booleans()))
def test_what_json_spells_comes_back(value: Any) -> None:
    assert typed(json.dumps(value), {"type": ["object", "array"]}) == (value, ())


def test_choices_within_choices_are_looked_at_once_each() -> None:
    defs: dict[str, Any] = {"L0": {"type": "integer"}}
    for level in range(1, 25):
        below = {"$ref": f"#/$defs/L{level - 1}"}
        defs[f"L{level}"] = {"anyOf": [below, below], "allOf": [below, below]}
    # Looked at each time, they would be 4 ** 24.
    assert typed("5", {"$ref": "#/$defs/L24"}, {"$defs": defs}) == (5, ())


def test_what_is_nested_deeper_than_is_followed_says_nothing() -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(5000):
        deep = {"anyOf": [deep]}
    assert typed("5", deep) == ("5", ())


def test_a_property_is_found_wherever_the_schema_puts_it() -> None:
    schema: dict[str, Any] = {
        "$ref": "#/$defs/Args",
        "$defs": {"Args": {"properties": {"a": {"type": "integer"}}}},
        "allOf": [{"properties": {"b": STRING}}, {"additionalProperties": {"type": "null"}}],
    }
    assert property_schema(schema, "a") == {"type": "integer"}
    assert property_schema(schema, "b") == STRING
    assert property_schema(schema, "c") == {"type": "null"}
    assert property_schema({}, "c") is True
    assert property_names(schema) == ("a", "b")


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ("object", "The schema"),
        ({"type": 3}, "`type`"),
        ({"properties": [STRING]}, "`properties`"),
        ({"properties": {"a": "string"}}, "`properties/a`"),
        ({"properties": {"a": {"items": [1]}}}, "`properties/a/items/0`"),
        ({"properties": {"a": {"$ref": "#/$defs/Gone"}}}, "`properties/a/$ref`"),
        ({"anyOf": {"type": "object"}}, "`anyOf`"),
        ({"properties": {"a": {"enum": "x"}}}, "`properties/a/enum`"),
    ],
)
def test_a_schema_that_is_none_is_one_error_that_names_tool_and_place(
    schema: Any, place: str
) -> None:
    tool = {"type": "function", "function": {"name": "look_up", "parameters": schema}}
    with pytest.raises(UsageError, match="`parameters` of the tool 'look_up'") as failure:
        get_parser("glm45").parse("", tools=[tool])
    assert place in str(failure.value)


def test_a_schema_that_refers_to_itself_is_a_schema() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {}}
    node["properties"]["children"] = {"type": "array", "items": {"$ref": "#"}}
    node["properties"]["same"] = node
    tools = [{"type": "function", "function": {"name": "f", "parameters": node}}]
    text = "<tool_call>f<arg_key>children</arg_key><arg_value>[]</arg_value></tool_call>"
    assert get_parser("glm47").parse(text, tools).tool_calls[0].arguments == {"children": []}
