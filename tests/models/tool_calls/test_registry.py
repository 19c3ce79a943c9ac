"""Formats by name: ours, those of users, and the names that others have for ours."""

import pytest

from rolecraft import tool
from rolecraft.errors import UnknownName, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import get_parser, parser_names, register_parser, registry
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.json_body import Ends, JSONBody
from rolecraft.models.tool_calls.json_calls import write_calls
from rolecraft.models.tool_calls.registry import ALIASES


def test_every_name_and_alias_has_a_parser() -> None:
    for name in parser_names():
        assert get_parser(name).name == ALIASES.get(name, name)
    for alias, name in ALIASES.items():
        assert get_parser(alias).name == name


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName) as raised:
        get_parser("hermess")
    said = str(raised.value)
    assert "'hermess'" in said
    assert "Did you mean 'hermes'?" in said
    assert all(f"`{name}`" in said for name in parser_names())
    assert "@register_parser" in said


def test_a_format_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))

    @register_parser("angle-test")
    def angle() -> Grammar:
        return Grammar(
            name="angle-test",
            opens=("<<call>>",),
            body=JSONBody(Ends(("<</call>>",), ("<<call>>",))),
            write=lambda calls: write_calls(calls, "<<call>>", "<</call>>"),
        )

    parser = get_parser("angle-test")
    calls = [ToolCall("a", {"x": "<</call>>"}), ToolCall("b", {})]
    assert parser.parse(f"Hm. {parser.render(calls)}").tool_calls == calls
    assert "angle-test" in parser_names()
    with pytest.raises(UsageError, match=r"'angle-test' is registered already.*another name"):
        register_parser("angle-test")(angle)


def test_a_format_that_is_registered_wrongly_says_so_at_once() -> None:
    with pytest.raises(UsageError, match="has to return a `Grammar`, it returned None"):
        register_parser("nothing-test")(lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="name is missing"):
        register_parser(lambda: get_parser("hermes").grammar)  # type: ignore[arg-type]
    assert "nothing-test" not in parser_names()


def test_tools_may_be_functions_with_a_spec_and_one_dict_is_no_list() -> None:
    @tool
    async def look(at: int) -> int:
        """Look."""
        return at

    text = "<tool_call>look<arg_key>at</arg_key><arg_value>3</arg_value></tool_call>"
    output = get_parser("glm47").parse(text, [look])
    assert output.tool_calls == [ToolCall("look", {"at": 3})]
    with pytest.raises(UsageError, match="is a list of tools, even of one"):
        get_parser("hermes").parse("", {"name": "look"})  # type: ignore[arg-type]


def test_no_text_is_an_empty_one() -> None:
    assert get_parser("hermes").parse(None) == get_parser("hermes").parse("")


def test_names_of_ours_can_not_be_taken() -> None:
    with pytest.raises(UsageError, match="'mistral' is registered already"):
        register_parser("mistral")(lambda: get_parser("hermes").grammar)


def test_a_parser_shows_how_to_get_it() -> None:
    assert repr(get_parser("qwen")) == "get_parser('qwen')"
    assert repr(get_parser("qwen3", repair=False)) == "get_parser('qwen', repair=False)"
