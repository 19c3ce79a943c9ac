"""`@tool`: the JSON schema that a model sees, and what cannot become one."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from rolecraft import Action
from rolecraft.actions import tool
from rolecraft.actions._docstring import read_docstring
from rolecraft.errors import BadToolCall, UnknownName, UsageError


class Unit(Enum):
    CELSIUS = "c"
    KELVIN = "k"


class Place(BaseModel):
    city: str
    near: list[str] = []


@dataclass
class Weather:
    degrees: float
    day: date


# --- what a model sees -----------------------------------------------------------------------


def test_a_tool_is_named_and_described_as_the_function() -> None:
    @tool
    async def read_register(name: Literal["a", "b"]) -> int:
        """Read one register."""
        return ord(name)

    spec = read_register.spec
    assert (spec.name, spec.description) == ("read_register", "Read one register.")
    assert spec.parameters == {
        "type": "object",
        "properties": {"name": {"enum": ["a", "b"], "type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }


def test_name_and_desc_can_be_given() -> None:
    @tool(name="Look-up_2", desc="Find things.")
    def lookup(word: str) -> str:
        """Something for programmers."""
        return word

    assert (lookup.spec.name, lookup.spec.description) == ("Look-up_2", "Find things.")


def test_defaults_are_optional_and_shown() -> None:
    @tool
    def search(
        query: str, limit: int = 5, unit: Unit = Unit.KELVIN, since: date | None = None
    ) -> str:
        return query

    assert search.spec.parameters["required"] == ["query"]
    shown = search.spec.parameters["properties"]
    assert [shown[name]["default"] for name in ("limit", "unit", "since")] == [5, "k", None]


def test_a_default_that_json_cannot_hold_is_left_to_the_function() -> None:
    missing = object()

    @tool
    def search(query: str = "", limit: Any = missing) -> bool:
        return limit is missing

    assert search.spec.parameters["properties"]["limit"] == {}


def test_any_name_may_be_a_parameter() -> None:
    """Names that pydantic's models keep for themselves, and names of methods of dicts."""

    @tool
    def odd(copy: int, schema: int, model_config: int, items: int, _x: int) -> int:
        return copy

    names = ["copy", "schema", "model_config", "items", "_x"]
    assert list(odd.spec.parameters["properties"]) == names


def test_nested_models_and_descriptions_of_fields_are_kept() -> None:
    @tool
    def forecast(place: Place, days: Annotated[int, Field(ge=1, description="how far")]) -> str:
        """Look ahead.

        Args:
            place: where.
            days: not this one.
        """
        return place.city

    parameters = forecast.spec.parameters
    assert parameters["properties"]["place"] == {
        "$ref": "#/$defs/Place",
        "description": "where.",
    }
    assert parameters["properties"]["days"] == {
        "type": "integer",
        "minimum": 1,
        "description": "how far",
    }
    assert parameters["$defs"]["Place"]["required"] == ["city"]


def test_a_parameter_annotated_action_is_not_the_models() -> None:
    @tool
    def note(text: str, here: Action, there: Action | None = None) -> str:
        return text

    assert list(note.spec.parameters["properties"]) == ["text"]
    assert note.spec.parameters["additionalProperties"] is False


def test_bound_methods_partials_and_callable_objects_can_be_tools() -> None:
    class Shelf:
        def find(self, title: str) -> str:
            """Find a book."""
            return title

        async def __call__(self, title: str) -> str:
            return title

    shelf = Shelf()
    find = tool(shelf.find)
    assert (find.spec.name, find.spec.description) == ("find", "Find a book.")
    assert list(find.spec.parameters["properties"]) == ["title"]
    assert tool(name="shelf")(shelf)._is_async
    rain = functools.partial(find.function, title="rain")
    assert tool(name="rain", desc="")(rain).spec.parameters["properties"]["title"]["default"]


# --- docstrings ------------------------------------------------------------------------------


def google() -> None:
    """Find lines.

    All of them: also the
    empty ones.

    Args:
        pattern (str, optional): what to find;
            may be long.
        limit: how many: at most.

    Returns:
        lines: found.
    """


def numpy() -> None:
    """Find lines.

    All of them: also the
    empty ones.

    Parameters
    ----------
    pattern : str, optional
        what to find;
        may be long.
    limit : {1, 2}
        how many: at most.

    Returns
    -------
    lines : list
        found.
    """


def sphinx() -> None:
    """Find lines.

    All of them: also the
    empty ones.

    :param str pattern: what to find;
        may be long.
    :type pattern: str
    :param limit: how many: at most.
    :returns: lines
    :raises ValueError: never
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_the_three_styles_of_docstrings_say_the_same(function: Callable[[], None]) -> None:
    description, parameters = read_docstring(function)
    assert description == "Find lines.\n\nAll of them: also the\nempty ones."
    assert parameters == {
        "pattern": "what to find; may be long.",
        "limit": "how many: at most.",
    }


def test_a_docstring_without_sections_is_all_description() -> None:
    def plain() -> None:
        """Note: this is it.

        Example: none here. Args: neither.
        """

    assert read_docstring(plain) == (
        "Note: this is it.\n\nExample: none here. Args: neither.",
        {},
    )
    assert read_docstring(lambda: None) == ("", {})


def test_several_names_of_numpy_share_a_text() -> None:
    def together() -> None:
        """Add.

        Parameters
        ----------
        a, b : int
            a number

        Notes
        -----
        c : int
            none
        """

    assert read_docstring(together)[1] == {"a": "a number", "b": "a number"}


@given(st.text())
def test_no_docstring_breaks_the_reader(text: str) -> None:
    def function() -> None: ...

    function.__doc__ = text
    description, _ = read_docstring(function)
    assert len(description) <= len(text.expandtabs())


# --- what cannot be a tool -------------------------------------------------------------------


def test_a_parameter_without_annotation_is_refused() -> None:
    with pytest.raises(UsageError, match="Parameter `limit` of tool `f` has no annotation: write"):

        @tool
        def f(query: str, limit=5) -> str:  # type: ignore[no-untyped-def]
            return query


def test_a_method_is_to_be_bound_first() -> None:
    with pytest.raises(UsageError, match=r"`self` of tool `find`.*`tool\(thing.method\)`"):

        class Shelf:
            @tool
            def find(self, title: str) -> str:
                return title


def test_a_result_without_annotation_is_refused() -> None:
    with pytest.raises(UsageError, match="Tool `f` does not say what it returns: write `-> str`"):

        @tool
        def f(query: str):  # type: ignore[no-untyped-def]
            return query


def test_a_result_that_json_cannot_hold_is_refused() -> None:
    class Thing: ...

    with pytest.raises(UsageError, match="The result of tool `f` is a `Thing`, which JSON cannot"):

        @tool
        def f() -> Thing:
            return Thing()


def test_a_parameter_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Parameter `then` of tool `f` is a .*JSON cannot hold"):

        @tool
        def f(when: str, then: Callable[[], None]) -> None: ...


def test_a_quoted_name_within_an_annotation_is_what_the_error_is_about() -> None:
    with pytest.raises(UsageError, match=r"`where` of tool `f` is a `list.*without quotes"):

        @tool
        def f(where: list["Nowhere"]) -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tool(_stars), r"Tool `_stars` takes `\*words`"),
        (lambda: tool(_double_stars), r"Tool `_double_stars` takes `\*\*options`"),
        (lambda: tool(_positional), "Tool `_positional` has the positional-only parameter `word`"),
        (lambda: tool(_generator), "Tool `_generator` yields; it must return"),
        (lambda: tool(_stream), "Tool `_stream` yields; it must return"),
        (lambda: tool(Place), "makes a tool of a function, got <class"),
        (lambda: tool(3), "makes a tool of a function, got 3"),  # type: ignore[call-overload]
        (lambda: tool(lambda: 3), r"A tool cannot be named '<lambda>'.*@tool\(name="),
        (lambda: tool(name="read file")(_ok), "A tool cannot be named 'read file'"),
        (lambda: tool(name="x" * 65)(_ok), "A tool cannot be named 'xxx"),
        (lambda: tool(name="größe")(_ok), "A tool cannot be named 'größe'"),
        (lambda: tool(_unknown), "An annotation of tool `_unknown` cannot be resolved: .*'Nobody'"),
    ],
)
def test_what_cannot_be_called_with_json_is_refused(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_an_unknown_option_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"'paralel'.*Did you mean 'parallel'"):
        tool(paralel=True)(_ok)


def _ok(word: str) -> str:
    return word


def _stars(*words: str) -> str:
    return words[0]


def _double_stars(**options: str) -> str:
    return ""


def _positional(word: str, /) -> str:
    return word


def _generator() -> Iterator[str]:
    yield ""


async def _stream() -> AsyncIterator[str]:
    yield ""


def _unknown(who: Nobody) -> None: ...  # type: ignore[name-defined]  # noqa: F821


# --- from JSON to the function, and back -----------------------------------------------------


async def test_arguments_arrive_as_the_function_annotates_them() -> None:
    @tool
    def see(place: Place, day: date, unit: Unit, pair: tuple[int, str]) -> str:
        assert isinstance(place, Place)
        return f"{place.city} {day.year} {unit.name} {pair}"

    said = await see.run(place={"city": "Rome"}, day="2026-11-21", unit="k", pair=["3", "x"])
    assert said == "Rome 2026 KELVIN (3, 'x')"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "`query` is missing"),
        ({"query": 3}, "`query`: Input should be a valid string, got 3"),
        ({"query": "a", "limt": 3}, "`limt` is no parameter"),
        ({"query": "a", "limit": "x"}, "`limit`: Input should be a valid integer, .* got 'x'"),
        (
            {"query": "a", "places": [{"city": "Rome"}, {"near": ["a", 1]}]},
            r"`places\[1\]\.city` is missing; `places\[1\]\.near\[1\]`: Input should be",
        ),
        ({"query": "\ud800"}, "surrogates"),
        ({"query": "x" * 999, "limit": "y" * 999}, "got 'yyy[^ ]{96,98}…"),
    ],
)
async def test_wrong_arguments_say_which_parameter_what_and_what_is_known(
    arguments: dict[str, Any], problem: str
) -> None:
    @tool
    def search(query: str, limit: int = 3, places: list[Place] | None = None) -> str:
        return query

    known = r"Its parameters: `query` \(required\), `limit`, `places`$"
    with pytest.raises(BadToolCall, match=f"`search` was called wrongly: .*{problem}.*{known}"):
        await search.run(**arguments)


async def test_results_become_json() -> None:
    @tool
    def weather() -> Weather:
        return Weather(3.5, date(2026, 11, 21))

    @tool
    def places() -> list[Place]:
        return [Place(city="Rome")]

    @tool
    def anything() -> Any:
        return {"at": date(2026, 11, 21), "of": (1, Unit.KELVIN)}

    @tool
    def nothing() -> None: ...

    assert await weather.run() == {"degrees": 3.5, "day": "2026-11-21"}
    assert await places.run() == [{"city": "Rome", "near": []}]
    assert await anything.run() == {"at": "2026-11-21", "of": [1, "k"]}
    assert await nothing.run() is None


async def test_a_result_that_is_not_what_the_function_says_is_still_json_or_an_error() -> None:
    @tool
    def number() -> int:
        return "three"  # type: ignore[return-value]

    @tool
    def thing() -> Any:
        return object()

    assert await number.run() == "three"
    with pytest.raises(UsageError, match=r"Tool `thing` returned <object .*JSON cannot hold"):
        await thing.run()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON))
async def test_whatever_a_model_calls_with_is_taken_or_is_a_bad_call(
    arguments: dict[str, Any],
) -> None:
    """Nothing but `BadToolCall` comes of arguments that are JSON."""

    try:
        result = await _search.run(**arguments)
    except BadToolCall:
        assert arguments.keys() != {"query"} or not isinstance(arguments["query"], str)
    else:
        assert result == arguments["query"]


@tool
async def _search(query: str, limit: int = 3, place: Place | None = None) -> str:
    return query
