"""A function's signature as a JSON schema, and the way from JSON arguments to it and back.

Everything that is wrong with a signature is found when the tool is made, not when a model calls
it: pydantic builds the validator of the arguments and the serialiser of the result there and then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, NotRequired, Union, get_args, get_origin

from rolecraft.actions._docstring import read_docstring
from rolecraft.actions.action import Action
from rolecraft.errors import BadToolCall, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "takes `*{}`; a model names each argument: write them out",
    inspect.Parameter.VAR_KEYWORD: "takes `**{}`; a model must know each parameter: write them out",
    inspect.Parameter.POSITIONAL_ONLY: "has the positional-only parameter `{}`: take away the `/`",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes from a model and gives to it."""

    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, an object."""
    injected: tuple[str, ...]
    """Parameters that get the running action; no model sees them."""
    _arguments: TypeAdapter[dict[str, Any]]
    _result: TypeAdapter[Any]

    def read(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them. Raises `BadToolCall` for wrong ones."""
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError, to_json

        try:  # as JSON, because a date is a string there, and an enum one of its values
            return self._arguments.validate_json(to_json(arguments))
        except ValidationError as error:
            problem = _problems(error)
        except PydanticSerializationError as error:
            problem = str(error)
        raise BadToolCall(tool, f"{problem}. {self._known()}")

    def write(self, tool: str, result: Any) -> Any:
        """The result as JSON has it. Raises `UsageError` where JSON cannot hold it."""
        from pydantic_core import PydanticSerializationError

        try:
            return self._result.dump_python(result, mode="json", warnings=False)
        except (PydanticSerializationError, ValueError) as error:
            raise UsageError(
                f"Tool `{tool}` returned {result!r}, which JSON cannot hold: {error}. "
                f"Return a str, a pydantic model, or a JSON value."
            ) from error

    def _known(self) -> str:
        required = self.parameters.get("required", ())
        names = [
            f"`{name}`{' (required)' if name in required else ''}"
            for name in self.parameters["properties"]
        ]
        return f"Its parameters: {', '.join(names) or 'none'}"


def _problems(error: ValidationError) -> str:
    """What is wrong with which parameter, as a model can mend it."""
    texts = []
    for flaw in error.errors(include_url=False):
        place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in flaw["loc"])
        name = f"`{place.lstrip('.')}`"
        match flaw["type"]:
            case "extra_forbidden":
                texts.append(f"{name} is no parameter")
            case "missing":
                texts.append(f"{name} is missing")
            case _:
                texts.append(f"{name}: {flaw['msg']}, got {_short(flaw['input'])}")
    return "; ".join(texts)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def read_signature(function: Callable[..., Any], name: str, scope: Mapping[str, Any]) -> Signature:
    """The signature of the function that becomes the tool `name`.

    `scope` has the names that the function's annotations may use besides its module's. Raises
    `UsageError` for what cannot become a JSON schema.
    """
    try:
        signature = inspect.signature(function, locals=scope, eval_str=True)
    except NameError as error:
        raise UsageError(
            f"An annotation of tool `{name}` cannot be resolved: {error}. "
            f"Define what it names before the tool."
        ) from error
    description, documented = read_docstring(function)
    hints: dict[str, Any] = {}
    injected = []
    for parameter in signature.parameters.values():
        if parameter.kind in _REFUSED:
            problem = _REFUSED[parameter.kind].format(parameter.name)
            raise UsageError(f"Tool `{name}` {problem}.")
        if parameter.annotation is parameter.empty:
            hint = f"write `{parameter.name}: str`, for example"
            if parameter.name in ("self", "cls"):
                hint = "make a tool of the bound method, `tool(thing.method)`"
            raise UsageError(
                f"Parameter `{parameter.name}` of tool `{name}` has no annotation: {hint}."
            )
        if _is_action(parameter.annotation):
            injected.append(parameter.name)
        else:
            hints[parameter.name] = parameter.annotation
    if signature.return_annotation is signature.empty:
        raise UsageError(
            f"Tool `{name}` does not say what it returns: write `-> str`, for example, or "
            f"`-> None`."
        )
    defaults = {
        parameter.name: parameter.default
        for parameter in signature.parameters.values()
        if parameter.default is not parameter.empty
    }
    arguments, parameters = _of_arguments(name, hints, defaults)
    for about, text in documented.items():
        if about in parameters["properties"]:
            parameters["properties"][about].setdefault("description", text)
    result = _of_result(name, signature.return_annotation)
    return Signature(description, parameters, tuple(injected), arguments, result)


def _is_action(hint: Any) -> bool:
    """Whether a parameter with this annotation gets the running action."""
    if get_origin(hint) in (Union, UnionType):
        return any(map(_is_action, get_args(hint)))
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, Action)


def _of_arguments(
    name: str, hints: dict[str, Any], defaults: dict[str, Any]
) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic_core import PydanticSerializationError, to_jsonable_python
    from typing_extensions import TypedDict  # pydantic takes typing's own from Python 3.12 on

    # A `TypedDict`, because its keys may be anything; a model's fields may not be called `copy`.
    typed_dict: Any = TypedDict
    kind = typed_dict(
        name, {key: NotRequired[hint] if key in defaults else hint for key, hint in hints.items()}
    )
    kind.__pydantic_config__ = {"extra": "forbid"}
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(kind)
        schema = adapter.json_schema(schema_generator=_plain())
    except PydanticUserError as error:
        for key, hint in hints.items():
            _check(hint, f"Parameter `{key}` of tool `{name}`", "validation")
        raise UsageError(f"Tool `{name}` has no JSON schema: {error}") from error
    schema.pop("title", None)
    properties = schema.setdefault("properties", {})
    for key, default in defaults.items():
        if key in properties:
            # One that JSON cannot hold the function knows; only the model does not read it.
            with suppress(PydanticSerializationError, ValueError):
                properties[key].setdefault("default", to_jsonable_python(default))
    return adapter, schema


def _of_result(name: str, hint: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    _check(hint, f"The result of tool `{name}`", "serialization")
    return TypeAdapter(hint)


def _check(hint: Any, what: str, mode: Any) -> None:
    """Raise `UsageError` if JSON has nothing for values of this type."""
    from pydantic import PydanticUserError, TypeAdapter

    try:
        TypeAdapter(hint).json_schema(mode=mode)
    except PydanticUserError as error:
        if error.code == "class-not-fully-defined":
            raise UsageError(
                f"{what} is a `{hint}`: a name in quotes within an annotation cannot be looked "
                f"up. Write it without quotes."
            ) from error
        raise UsageError(
            f"{what} is a `{getattr(hint, '__name__', hint)}`, which JSON cannot hold: use a "
            f"JSON type, a pydantic model, a dataclass, or a `Literal`."
        ) from error


@lru_cache(maxsize=1)
def _plain() -> Any:
    """A generator of JSON schemas without a title for each parameter, which only repeats it."""
    from pydantic.json_schema import GenerateJsonSchema

    class Plain(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Plain
