"""Calls whose bodies are JSON: what is in them, how they are mended, and how they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.near_json import MOST_DEEP, NotJSON, mend
from rolecraft.models.tool_calls.json_span import STRICT, Span, unique
from rolecraft.models.tool_calls.source import Source


class Unreadable(ValueError):
    """A text is no call. Says why."""


def decode(
    text: str, *, repair: bool, cut: bool = False, tried: bool = False
) -> tuple[Any, tuple[str, ...]]:
    """The JSON value that `text` says, and by which repairs. Raises `Unreadable`.

    `cut` says that more may have followed `text`, so that what is missing at its end stays missing;
    `tried`, that it is known to be no valid JSON.
    """
    try:
        if tried:
            raise ValueError("it is no JSON")
        return shallow(STRICT.decode(text), text), ()
    except (ValueError, RecursionError) as failure:
        if not repair:
            raise Unreadable(str(failure)) from None
    try:
        mended, repairs = mend(text, whole=not cut, tried=True)
        odd: list[str] = []
        value = shallow(_loads(mended, odd), mended)
        if odd:
            repairs = (*repairs, "number as string")
    except (NotJSON, ValueError, RecursionError) as failure:
        raise Unreadable(str(failure)) from None
    if cut and not _MISSING.isdisjoint(repairs):
        raise Unreadable("it breaks off")
    return value, repairs


def _loads(text: str, odd: list[str]) -> Any:
    return json.loads(text, parse_constant=_noting(odd), object_pairs_hook=unique)


def _noting(words: list[str]) -> Callable[[str], str]:
    """Keeps what is no number of JSON, such as `NaN`, as the word that it is, and notes it."""

    def keep(word: str) -> str:
        words.append(word)
        return word

    return keep


_PLAIN = frozenset((str, int, float, bool, type(None)))


def shallow(value: Any, text: str) -> Any:
    """`value`, unless copying and writing it would take too much of Python's stack."""
    if len(text) <= MOST_DEEP or (
        type(value) is dict and _PLAIN.issuperset(map(type, value.values()))
    ):
        return value
    if text.count("{") + text.count("[") <= MOST_DEEP:
        return value
    level = [value]
    for _ in range(MOST_DEEP):
        level = [
            inner
            for each in level
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return value
    raise Unreadable(f"it is nested more than {MOST_DEEP} deep")


_MISSING = frozenset(("missing brace", "missing bracket"))


def value_of(span: Span, *, repair: bool) -> tuple[Any, tuple[str, ...]]:
    """What a whole span says. Raises `Unreadable`."""
    if span.strict:
        return shallow(span.value, span.text), ()
    return decode(span.text, repair=repair)


class CallIn(NamedTuple):
    """A call that a JSON value is."""

    name: str
    arguments: dict[str, Any]
    call_id: str
    repairs: tuple[str, ...]
    others: tuple[str, ...]
    """Members that no call has."""


_KNOWN = frozenset(
    ("name", "arguments", "parameters", "id", "type", "index", "call_id", "tool_call_id")
)
"""What may be in a call; all but the first three says nothing that matters."""


def call_in(value: Any, *, repair: bool) -> CallIn:
    """The call that `value` is. Raises `Unreadable`."""
    if type(value) is not dict:
        raise Unreadable("a call is an object with `name` and `arguments`")
    function = value.get("function")
    if type(function) is dict and "name" not in value:
        around = {key: each for key, each in value.items() if key != "function"}
        for key in ("arguments", "parameters"):
            if key in around and not {"arguments", "parameters"}.isdisjoint(function):
                raise Unreadable(f"it has `{key}` within `function` and beside it")
        return call_in({**function, **around}, repair=repair)
    name = value.get("name")
    if type(name) is not str or not name:
        raise Unreadable("it has no `name`")
    given = value.get("arguments", value.get("parameters"))
    others: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    if len(value) > 2:
        others = tuple(key for key in value if key not in _KNOWN)
    if "arguments" in value:
        if "parameters" in value:
            if value["parameters"] and given:
                raise Unreadable("it has both `arguments` and `parameters`")
            if not repair:
                raise Unreadable("it has `arguments` and `parameters`, of which one is empty")
            given = given or value["parameters"]
            mended = ("arguments twice",)
    elif "parameters" not in value and (others := tuple(set(value) - _KNOWN)):
        raise Unreadable(f"it has no `arguments`, but {_listed(others)}")
    call_id = value.get("id")
    arguments, repairs = arguments_in(given, repair=repair)
    return CallIn(
        name, arguments, call_id if type(call_id) is str else "", (*mended, *repairs), others
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def give(source: Source, call: CallIn, raw: str, repairs: tuple[str, ...]) -> None:
    """Give a call that was read from a JSON value, which was written as `raw`."""
    name, arguments, call_id, mended, others = call
    if others:
        why = f"{_listed(others)}: no such member is known in a call"
        source.diagnose("text in a call", raw, why)
    source.call(name, arguments, raw=raw, call_id=call_id, repairs=(*repairs, *mended))


def arguments_in(value: Any, *, repair: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Arguments that are an object, an object in a string, or nothing. Raises `Unreadable`."""
    if type(value) is dict:
        return value, ()
    if value is None:
        return {}, ()
    if type(value) is str and repair:
        inside, repairs = decode(value, repair=repair) if value.strip() else ({}, ())
        if type(inside) is dict:
            return inside, ("arguments as string", *repairs)
    raise Unreadable("its arguments are no object")


_NAME = re.compile(r'"name"\s*:\s*("(?:[^"\\]|\\.)*")')


def name_in(text: str) -> str:
    """The name in a call that was cut off, if it says one."""
    found = _NAME.search(text)
    try:
        return json.loads(found[1], strict=False) if found else ""
    except ValueError:
        return ""


_HEADER_NAME = re.compile(r"[^\s{}\[\]<>`]+")


def header_name(call: ToolCall) -> str:
    """The name of a call as it stands in a header, where nothing can be escaped.

    Raises `UsageError` for a name that could not be read back.
    """
    if not _HEADER_NAME.fullmatch(call.name):
        raise UsageError(
            f"A tool named {call.name!r} cannot be called in this format: names stand bare in a "
            f"header, and white space, brackets, `<`, `>` and backticks would end it."
        )
    return call.name


def write_arguments(call: ToolCall) -> str:
    """The arguments of a call as one line of JSON."""
    return json.dumps(call.arguments, ensure_ascii=False)


def write_call(call: ToolCall, key: str = "arguments") -> str:
    """A call as one line of JSON."""
    return json.dumps({"name": call.name, key: call.arguments}, ensure_ascii=False)


def write_calls(calls: Sequence[ToolCall], before: str, after: str) -> str:
    """Calls as JSON, each between two markers."""
    return "\n".join(f"{before}{write_call(call)}{after}" for call in calls)
