"""How the type of an answer is told to a model, and what is told when an answer is not of it.

A pydantic model says all of it: `Field(description=...)` is the instruction of a field,
`Field(examples=[...])` shows its form.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

MOST_FLAWS = 10
"""So many flaws of an answer are told; more do not help."""


class Form(NamedTuple):
    """What checks an answer of some type, and how the type is told."""

    adapter: TypeAdapter[Any]
    text: str
    """Its JSON Schema, and an example where the fields have them."""


class _Schema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # it only repeats the name


def form_of(returns: Any) -> Form:
    """The form of a type. Slow to make, so kept for types that can be a key."""
    try:
        return _kept_form(returns)
    except TypeError:  # unhashable: `Annotated` with a list in it
        return _make_form(returns)


def _make_form(returns: Any) -> Form:
    adapter: TypeAdapter[Any] = TypeAdapter(returns)
    schema = adapter.json_schema(schema_generator=_Schema)
    text = _as_json(schema)
    example = _example(schema, schema.get("$defs", {}))
    if example is not None and schema.get("type") == "object":
        text += f"\nFor example, in form and not in content:\n{_as_json(example)}"
    return Form(adapter, text)


_kept_form = lru_cache(maxsize=256)(_make_form)


def _example(schema: dict[str, Any], defs: dict[str, Any], depth: int = 0) -> Any:
    """A value of the schema made of its examples; None if some required part has none."""
    if "$ref" in schema and depth < 20:
        return _example(defs.get(schema["$ref"].rpartition("/")[2], {}), defs, depth + 1)
    if schema.get("examples"):
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    if schema.get("type") == "array" and "items" in schema:
        item = _example(schema["items"], defs, depth + 1)
        return None if item is None else [item]
    if schema.get("type") != "object" or "properties" not in schema:
        return None
    example = {}
    for name, part in schema["properties"].items():
        value = _example(part, defs, depth + 1)
        if value is not None:
            example[name] = value
        elif name in schema.get("required", ()):
            return None
    return example or None


def flaws(error: ValidationError) -> str:
    """What is wrong with an answer, field by field, in words for whoever gave it."""
    found = error.errors(include_url=False)
    texts = [_flaw(flaw) for flaw in found[:MOST_FLAWS]]
    if len(found) > MOST_FLAWS:
        texts.append(f"and {len(found) - MOST_FLAWS} more")
    return "; ".join(texts)


def reason_of(error: ValueError) -> str:
    """Why an answer was refused, in words for whoever gave it."""
    return flaws(error) if isinstance(error, ValidationError) else str(error)


def _flaw(flaw: Any) -> str:
    place = ".".join(map(str, flaw["loc"])) or "answer"
    given = flaw["input"]
    said = f" (it is {given!r:.80})" if isinstance(given, (str, int, float, bool)) else ""
    return f"{place}: {flaw['msg'].removeprefix('Value error, ')}{said}"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
