"""The parts of a typed answer: what is where in it, and the answer with some of them changed.

A part has a path of JSON names and indices, as in `chapters.0.title`; `*` is the whole. Models and
lists have parts, anything else is one thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args, get_origin

from rolecraft.errors import UnknownName
from rolecraft.models.by_field import bare_kind, is_node, json_name, kind_of

WHOLE = "*"

Steps = tuple[str | int, ...]
"""The way to a part: names of fields, as Python has them, and indices."""


class Part(NamedTuple):
    steps: Steps
    kind: Any


def parts_of(answer: Any, kind: Any) -> dict[str, Part]:
    """Every part of `answer`, which is a `kind`, by its path."""
    found = {WHOLE: Part((), kind)}
    _collect(found, answer, kind, (), "")
    return found


def _collect(found: dict[str, Part], value: Any, kind: Any, steps: Steps, path: str) -> None:
    inner: list[tuple[str | int, str, Any, Any]] = []
    bare, _ = bare_kind(kind)
    if is_node(type(value)):
        for name, field in type(value).model_fields.items():
            inner.append((name, json_name(name, field), getattr(value, name), kind_of(field)))
    elif isinstance(value, list) and get_origin(bare) is list and get_args(bare):
        (item,) = get_args(bare)
        inner.extend((index, str(index), each, item) for index, each in enumerate(value))
    for step, name, each, of_kind in inner:
        place = f"{path}.{name}" if path else name
        found[place] = Part((*steps, step), of_kind)
        _collect(found, each, of_kind, (*steps, step), place)


def known_in(parts: Mapping[str, Part], comments: Mapping[str, str]) -> dict[str, str]:
    """The comments. Raises `UnknownName` for one on a part that does not exist."""
    for path in comments:
        if path not in parts:
            raise UnknownName("Part", path, parts)
    return dict(comments)


def outermost(paths: Mapping[str, Part]) -> dict[str, Part]:
    """Without the parts that are within another of them."""
    ways = {part.steps for part in paths.values()}
    return {
        path: part
        for path, part in paths.items()
        if not any(part.steps[:length] in ways for length in range(len(part.steps)))
    }


def with_changes(value: Any, changes: Mapping[Steps, Any]) -> Any:
    """`value` with other values for some of its parts, none of which is within another.

    All other parts are the same objects. A model is validated anew with the changes, as a whole.
    Raises pydantic's `ValidationError` if it does not take them.
    """
    if () in changes:
        return changes[()]
    inside: dict[str | int, dict[Steps, Any]] = {}
    for (first, *rest), new in changes.items():
        inside.setdefault(first, {})[tuple(rest)] = new
    if isinstance(value, list):
        return [
            with_changes(each, inside[index]) if index in inside else each
            for index, each in enumerate(value)
        ]
    fields = {
        json_name(name, field): with_changes(getattr(value, name), inside[name])
        if name in inside
        else getattr(value, name)
        for name, field in type(value).model_fields.items()
    }
    return type(value).model_validate({**(value.model_extra or {}), **fields})
