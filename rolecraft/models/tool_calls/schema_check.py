"""Refuses a tool's schema that is no JSON Schema, before any model is asked to follow it.

Checked is what the typing of values reads: `type`, `enum`, `properties`, `items`, the combinations,
and that each local `$ref` points at something. Types with unknown names are let pass: their values
are strings.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.tool_calls.schema_values import Schema, pointed_at

_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not")
_MOST_KNOWN = 1024


def check_schema(tool: str, schema: Any) -> None:
    """Raise `UsageError` if `schema` cannot be that of the parameters of `tool`.

    A schema that was found good once is not looked at again as long as it is remembered.
    """
    if KNOWN.get(id(schema)) is schema:
        return
    _check(tool, schema)
    if isinstance(schema, dict):
        KNOWN[id(schema)] = schema  # which keeps it alive, and so its id its own
        if len(KNOWN) > _MOST_KNOWN:
            KNOWN.popitem(last=False)


KNOWN: OrderedDict[int, dict[str, Any]] = OrderedDict()
"""Schemas that were found good, by their ids."""


def _check(tool: str, root: Any) -> None:
    waiting: list[tuple[str, Any]] = [("", root)]
    seen: set[int] = set()
    while waiting:
        place, schema = waiting.pop()
        if isinstance(schema, bool) and place:
            continue
        if not isinstance(schema, dict):
            wanted = "a dict or a bool" if place else "a dict"
            raise _bad(tool, place, f"must be {wanted}, got {schema!r}")
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        _check_words(tool, place, schema, root)
        for word in _MAPS:
            inner = schema.get(word, {})
            if not isinstance(inner, dict):
                raise _bad(tool, f"{place}/{word}", f"must be a dict of schemas, got {inner!r}")
            waiting.extend((f"{place}/{word}/{key}", one) for key, one in inner.items())
        for word in _LISTS:
            inner = schema.get(word, ())
            if not isinstance(inner, (list, tuple)):
                raise _bad(tool, f"{place}/{word}", f"must be a list of schemas, got {inner!r}")
            waiting.extend((f"{place}/{word}/{at}", one) for at, one in enumerate(inner))
        for word in _SINGLE:
            if word in schema:
                inner = schema[word]
                several = word == "items" and isinstance(inner, list)  # until draft 2019-09
                for at, one in enumerate(inner if several else [inner]):
                    waiting.append((f"{place}/{word}" + (f"/{at}" if several else ""), one))


def _check_words(tool: str, place: str, schema: dict[str, Any], root: Schema) -> None:
    said = schema.get("type", "")
    names = said if isinstance(said, (list, tuple)) else [said]
    if not all(isinstance(name, str) for name in names):
        raise _bad(tool, f"{place}/type", f"must be a type's name, or a list of them, got {said!r}")
    if not isinstance(schema.get("enum", []), (list, tuple)):
        raise _bad(tool, f"{place}/enum", f"must be a list of values, got {schema['enum']!r}")
    ref = schema.get("$ref", "")
    if not isinstance(ref, str):
        raise _bad(tool, f"{place}/$ref", f"must be a str such as '#/$defs/Point', got {ref!r}")
    if ref.startswith("#") and pointed_at(ref, root) is None:
        raise _bad(tool, f"{place}/$ref", f"points at nothing in this schema: {ref!r}")


def _bad(tool: str, place: str, what: str) -> UsageError:
    where = f"`{place.removeprefix('/')}` of the schema" if place else "The schema"
    return UsageError(
        f"The `parameters` of the tool {tool!r} are no JSON Schema: {where} {what}. "
        f"Give a schema of an object, such as "
        f"{{'type': 'object', 'properties': {{'city': {{'type': 'string'}}}}}}."
    )
