"""Calls whose bodies are JSON: what is in them, how they are mended, and how they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.near_json import MOST_DEEP, NotJSON, mend
from rolecraft.models.tool_calls.json_span import STRICT, Span


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
        value = shallow(json.loads(mended, parse_constant=_noting(odd)), mended)
        if odd:
            repairs = (*repairs, "number as string")
    except (NotJSON, ValueError, RecursionError) as failure:
        raise Unreadable(str(failure)) from None
    if cut and not _MISSING.isdisjoint(repairs):
        raise Unreadable("it breaks off")
    return value, repairs


def _noting(words: list[str]) -> Callable[[str], str]:
    """Keeps what is no number of JSON, such as `NaN`, as the word that it is, and notes it."""

    def keep(word: str) -> str:
        words.append(word)
        return word

    return keep


def shallow(value: Any, text: str) -> Any:
    """`value`, unless copying and writing it would take too much of Python's stack."""
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


def call_in(value: Any, *, repair: bool) -> tuple[str, dict[str, Any], str, tuple[str, ...]]:
    """Name, arguments, id and repairs of the call that `value` is. Raises `Unreadable`."""
    if type(value) is not dict:
        raise Unreadable("a call is an object with `name` and `arguments`")
    function = value.get("function")
    if type(function) is dict and "name" not in value:
        return call_in({**function, "id": value.get("id")}, repair=repair)
    name = value.get("name")
    if type(name) is not str or not name:
        raise Unreadable("it has no `name`")
    given = value["arguments"] if "arguments" in value else value.get("parameters")
    call_id = value.get("id")
    arguments, repairs = arguments_in(given, repair=repair)
    return name, arguments, call_id if type(call_id) is str else "", repairs


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
