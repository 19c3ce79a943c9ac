"""A value that a model wrote as text, typed by the JSON Schema of the tool's parameter.

Formats such as GLM's and Qwen3-Coder's write values without quotes: `12345` may be a number or a
postcode, and only the schema knows. So the text is read as the first of these types that the
schema allows and the text fits: null, integer, number, boolean, object, array, string. Blanks
around a value are ignored unless it is a string. `$ref`, `anyOf`, `oneOf`, `allOf`, `enum` and
`const` are followed. Where the schema says nothing, the text is a string. What fits no allowed
type is the JSON value that it spells, or else the text as it stands: nothing raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from rolecraft.models.near_json import NotJSON, mend
from rolecraft.models.tool_calls.python_literals import NotLiteral, python_literal

Schema = dict[str, Any] | bool

ALIASES = {
    **dict.fromkeys(("str", "text", "varchar", "char", "enum"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "uint", "uint32", "uint64"), "integer"),
    **dict.fromkeys(("long", "short", "unsigned", "bigint"), "integer"),
    **dict.fromkeys(("float", "float32", "float64", "double", "decimal"), "number"),
    "bool": "boolean",
    **dict.fromkeys(("dict", "map", "struct"), "object"),
    **dict.fromkeys(("list", "arr", "sequence", "tuple"), "array"),
    **dict.fromkeys(("none", "nil"), "null"),
}
"""What schemas that people write by hand call the types of JSON Schema."""
TYPES = frozenset({"null", "integer", "number", "boolean", "object", "array", "string"})
MOST_DEEP = 64
"""So deep are choices and references followed into one another."""
MOST_DIGITS = 400
"""A number of more digits stays text. Python reads long ones in quadratic time."""


class Allowed(NamedTuple):
    """What a schema allows, as far as the reading of text needs it."""

    types: frozenset[str]
    """Empty: the schema says nothing of the type."""
    members: tuple[Any, ...] = ()
    """The values of `enum` and `const`, if nothing else is allowed."""


def typed(
    text: str, schema: Schema, root: Schema | None = None, *, repair: bool = True
) -> tuple[Any, tuple[str, ...]]:
    """The value that `text` stands for under `schema`, and the names of the repairs it took.

    `root` is the schema that `$ref` points into; `schema` itself if not given. `repair=False`
    leaves objects and arrays that are no valid JSON as text.
    """
    if type(schema) is dict and schema.get("type") == "string" and _LIMITS.isdisjoint(schema):
        return text, ()  # most are as simple
    return read_as(text, allowed(schema, schema if root is None else root), repair=repair)


def read_as(text: str, kind: Allowed, *, repair: bool = True) -> tuple[Any, tuple[str, ...]]:
    """The value that `text` stands for where `kind` is allowed, and the repairs it took."""
    if kind.members:
        found = _member(text, kind.members)
        if found is not None:
            return found[0], ()
    types = kind.types
    if not types or types == _STRING:
        return text, ()
    bare = text.strip()
    if bare:
        value = _plain(text, bare, types)
        if value is not _NOTHING:
            return value, ()
        if not types.isdisjoint(("object", "array")):
            value, repairs = _group(bare, types, repair)
            if value is not _NOTHING:
                return value, repairs
    if "string" in types:
        return text, ()
    value = _json(bare)
    return (text if value is _NOTHING else value), ()


def allowed(schema: Schema, root: Schema) -> Allowed:
    """What `schema` allows, read against the document `root`."""
    if (
        isinstance(schema, dict)
        and schema.keys().isdisjoint(_LIMITS)  # most are as simple
        and (names := _type_names(schema.get("type")))
    ):
        return Allowed(names)
    limit = _Reader(root).limit(schema) or _ANYTHING
    return Allowed(limit.types or frozenset(), limit.members or ())


def property_schema(schema: Schema, key: str) -> Schema:
    """The schema of the property `key` of an object; `True` where nothing is said of it."""
    if isinstance(schema, dict) and schema.keys().isdisjoint(_LIMITS):
        properties = schema.get("properties")
        if isinstance(properties, dict) and key in properties:
            found_at_once: Schema = properties[key]
            return found_at_once
    found: list[Schema] = []
    other: list[Schema] = []
    for part in _parts(schema, schema):
        properties = part.get("properties")
        if isinstance(properties, dict) and key in properties:
            found.append(properties[key])
        elif isinstance(part.get("additionalProperties"), dict):
            other.append(part["additionalProperties"])
    found = found or other
    if not found:
        return True
    return found[0] if len(found) == 1 else {"anyOf": found}


def property_names(schema: Schema) -> tuple[str, ...]:
    """The names of an object's properties, in the order in which the schema lists them."""
    names: dict[str, None] = {}
    for part in _parts(schema, schema):
        properties = part.get("properties")
        if isinstance(properties, dict):
            names.update(dict.fromkeys(properties))
    return tuple(names)


def pointed_at(ref: str, root: Schema) -> Schema | None:
    """What a local `$ref` points at; None where it points at nothing, or at another document."""
    if not ref.startswith("#"):
        return None
    place: Any = root
    for name in ref[1:].split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and name in place:
            place = place[name]
        elif isinstance(place, list) and name.isdecimal() and int(name[:9]) < len(place):
            place = place[int(name[:9])]
        else:
            return None
    return place if isinstance(place, (dict, bool)) else None


def _parts(schema: Schema, root: Schema) -> Iterator[dict[str, Any]]:
    """A schema, what it refers to, and what it is put together from."""
    waiting, seen = [schema], set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        together = [one for word in _TOGETHER for one in part.get(word) or ()]
        if isinstance(ref := part.get("$ref"), str) and (target := pointed_at(ref, root)):
            together.insert(0, target)
        waiting.extend(reversed(together))


class _Reader:
    """Works out what schemas allow. Each is looked at once, so that cycles end."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.known: dict[int, _Limit | None] = {}
        self.deep = 0

    def limit(self, schema: Any) -> _Limit | None:
        """The limits that `schema` sets; None while they are being worked out, further up."""
        if not isinstance(schema, dict) or self.deep == MOST_DEEP:
            return _ANYTHING
        if id(schema) in self.known:
            return self.known[id(schema)]
        self.known[id(schema)] = None
        self.deep += 1
        found = self._together(schema)
        self.deep -= 1
        self.known[id(schema)] = found
        return found

    def _together(self, schema: dict[str, Any]) -> _Limit:
        limits: list[_Limit | None] = []
        if names := _type_names(schema.get("type")):
            limits.append(_Limit(names))
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            limits.append(_only(schema["enum"]))
        if "const" in schema:
            limits.append(_only([schema["const"]]))
        if isinstance(schema.get("$ref"), str):
            limits.append(self.limit(pointed_at(schema["$ref"], self.root)))
        limits.extend(
            _either([self.limit(one) for one in schema[word]])
            for word in ("anyOf", "oneOf")
            if isinstance(schema.get(word), list) and schema[word]
        )
        if isinstance(schema.get("allOf"), list):
            limits.extend(self.limit(one) for one in schema["allOf"])
        both = _both([limit for limit in limits if limit is not None])
        if both.types is None and both.members is None:
            if "properties" in schema:
                return _Limit(frozenset(("object",)))
            if "items" in schema or "prefixItems" in schema:
                return _Limit(frozenset(("array",)))
        return both


class _Limit(NamedTuple):
    """The types and the only values that are allowed; None for each that is not limited."""

    types: frozenset[str] | None = None
    members: tuple[Any, ...] | None = None


def _only(members: list[Any]) -> _Limit:
    return _Limit(frozenset(map(type_of, members)), tuple(members))


def _either(choices: list[_Limit | None]) -> _Limit:
    """What one of several limits lets through."""
    types: frozenset[str] = frozenset()
    members: tuple[Any, ...] | None = ()
    for choice in choices:
        if choice is None:
            continue
        types |= _STRING if choice.types is None else choice.types
        if choice.types == _NULL:
            choice = _only([None])
        if members is not None:
            members = None if choice.members is None else members + choice.members
    return _Limit(types or None, members or None)


def _both(limits: list[_Limit]) -> _Limit:
    """What all of several limits let through."""
    types: frozenset[str] | None = None
    members: tuple[Any, ...] | None = None
    for limit in limits:
        if types is None or limit.types is None:
            types = types or limit.types
        else:
            common = types & limit.types
            if {"integer", "number"} <= types | limit.types:
                common |= _INTEGER_TYPE  # an integer is a number
            types = common or types
        members = limit.members or members
    return _Limit(types, members)


def _type_names(said: Any) -> frozenset[str]:
    """The types that the keyword `type` names, those that nobody knows left out."""
    if isinstance(said, str) and said in _ALONE:
        return _ALONE[said]
    names = said if isinstance(said, list) else [said]
    return frozenset(
        known
        for name in names
        if isinstance(name, str)
        for known in (ALIASES.get(name.strip().lower(), name.strip().lower()),)
        if known in TYPES
    )


def type_of(value: Any) -> str:
    """The JSON Schema type of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case dict():
            return "object"
        case list() | tuple():
            return "array"
    return "string"


def _member(text: str, members: tuple[Any, ...]) -> tuple[Any] | None:
    """The allowed value that is spelt like the text: as it stands, or blanks apart."""
    for spelling in (text, text.strip()):
        for member in members:
            if member == spelling or (
                not isinstance(member, str) and _spelt(member) == spelling.casefold()
            ):
                return (member,)
    return None


def _spelt(member: Any) -> str:
    return json.dumps(member, ensure_ascii=False).casefold()


def _plain(text: str, bare: str, types: frozenset[str]) -> Any:
    """Null, a number or a boolean, if one is allowed and spelt by the text.

    Where a string is allowed as well, only by the spelling that JSON has for it.
    """
    strict = "string" in types
    lower = bare.lower() if len(bare) <= _LONGEST_WORD else ""
    if "null" in types and (lower == "null" or (lower == "none" and not strict)):
        return None
    if not types.isdisjoint(("integer", "number")) and len(bare) <= MOST_DIGITS:
        value = _number(bare, "number" in types, _JSON_NUMBER if strict else _NUMBER)
        if value is not None:
            return value
    if "boolean" in types:
        if lower in ("true", "false"):
            return lower == "true"
        if lower in ("0", "1") and not strict:
            return lower == "1"
    return _NOTHING


def _number(text: str, broken: bool, form: re.Pattern[str]) -> int | float | None:
    """The number that a text of this form spells; a `broken` one only where that is allowed."""
    if not form.fullmatch(text):
        return None
    text = text.replace("_", "")
    if _INTEGER.fullmatch(text):
        return int(text)
    exact = Decimal(text)
    if abs(exact.adjusted()) > MOST_DIGITS:
        return None
    if not broken:
        return int(exact) if exact == exact.to_integral_value() else None
    value = float(text)
    return None if value in (float("inf"), float("-inf")) else value


def _group(text: str, types: frozenset[str], repair: bool) -> tuple[Any, tuple[str, ...]]:
    """An object or an array, if one is allowed and spelt by the text, and the repairs it took."""
    if text[0] not in _OPENING:
        return _NOTHING, ()
    value = _json(text)
    if value is not _NOTHING:
        return (value if type_of(value) in types else _NOTHING), ()
    if not repair or "string" in types:
        return _NOTHING, ()
    repairs: tuple[str, ...]
    try:
        mended, repairs = mend(text)
        value = _json(mended)
    except NotJSON:
        try:
            value, repairs = python_literal(text), ("python literals",)
        except NotLiteral:
            value, repairs = _unescaped(text), ("escaped quotes",)
    if value is _NOTHING or type_of(value) not in types:
        return _NOTHING, ()
    return value, repairs


def _unescaped(text: str) -> Any:
    """The JSON value of a text in which each quote stands behind a backslash: JSON in a string."""
    if '\\"' not in text:
        return _NOTHING
    inner = _json(f'"{text}"')
    return _json(inner) if isinstance(inner, str) else _NOTHING


def _json(text: str) -> Any:
    """The JSON value that the text spells, if it has no number that is not finite."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return _NOTHING


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{digits} is too large")
    return value


_ALONE = {name: frozenset((name,)) for name in TYPES}
_NOTHING: Any = object()
_ANYTHING = _Limit()
_STRING = frozenset(("string",))
_NULL = frozenset(("null",))
_INTEGER_TYPE = frozenset(("integer",))
_LIMITS = frozenset(("enum", "const", "$ref", "anyOf", "oneOf", "allOf"))
_TOGETHER = ("allOf", "anyOf", "oneOf")
_LONGEST_WORD = 5
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?", re.ASCII)
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_OPENING = frozenset("{[(")
