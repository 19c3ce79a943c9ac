"""Typed values field by field: the pydantic model is the tree of questions.

A field whose type is a model is a node, and its fields are the sub-questions; any other field is
a leaf, which is asked for. Used where the whole cannot be had at once: a person answers in words,
and a model may be asked node by node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rolecraft.errors import InvalidAnswer
from rolecraft.models.forms import flaws


class Leaf(NamedTuple):
    """One field to be asked for."""

    path: str
    """As in `chapters.title`."""
    kind: Any
    """Its type, with its constraints."""
    field: FieldInfo
    problem: str = ""
    """Why it is asked for again."""


def is_node(kind: Any) -> TypeGuard[type[BaseModel]]:
    """Whether a type has sub-questions."""
    return (
        isinstance(kind, type) and issubclass(kind, BaseModel) and "root" not in kind.model_fields
    )


def json_name(name: str, field: FieldInfo) -> str:
    """The key of a field in the JSON of its model."""
    alias = field.validation_alias or field.alias
    return alias if isinstance(alias, str) else name


def kind_of(field: FieldInfo) -> Any:
    """The type of a field, with its constraints and description."""
    return Annotated[field.annotation, field]


def bare_kind(kind: Any) -> tuple[Any, bool]:
    """A type without its constraints and without `None`, and whether it may be `None`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        others = [part for part in get_args(kind) if part is not NoneType]
        if len(others) == 1:
            return bare_kind(others[0])[0], True
    return kind, False


async def fill_fields(
    kind: type[BaseModel],
    ask: Callable[[Leaf], Awaitable[Any]],
    *,
    path: str = "",
    retries: int = 2,
) -> Any:
    """A `kind`, each leaf of it as `ask` gives it, in the order of its fields.

    Leaves that the model does not take, each of which was valid by itself, are asked for again
    with the reason: the ones that it names, or all of its own. Raises `InvalidAnswer` after
    `retries` times, and what `ask` raises.
    """
    given: dict[str, Any] = {}
    wrong: dict[str, str] = dict.fromkeys(kind.model_fields, "")
    for _ in range(retries + 1):
        for name, problem in wrong.items():
            field = kind.model_fields[name]
            key = json_name(name, field)
            place = f"{path}.{key}".lstrip(".")
            if is_node(field.annotation):
                given[key] = await fill_fields(field.annotation, ask, path=place, retries=retries)
            else:
                given[key] = await ask(Leaf(place, kind_of(field), field, problem))
        try:
            return kind.model_validate(given)
        except ValidationError as error:
            reason = flaws(error)
            named = {str(flaw["loc"][0]) for flaw in error.errors() if flaw["loc"]}
        known = {name: json_name(name, field) for name, field in kind.model_fields.items()}
        wrong = {name: reason for name, key in known.items() if key in named or not named}
    raise InvalidAnswer(f"No valid {kind.__name__} in {retries + 1} attempts: {reason}")
