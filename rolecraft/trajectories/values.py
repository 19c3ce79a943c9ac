"""Values that an action returned or left behind, as JSON and back.

Plain JSON values stand for themselves. A pydantic model, a dataclass, a message, a tuple or a set
is an object with one key that JSON values of users cannot be mistaken for, and names its class;
classes are found again among those that the program has defined, never imported on the word of a
file.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from rolecraft.errors import NotRestorable
from rolecraft.messages import Message

if TYPE_CHECKING:
    from pydantic import BaseModel

_KIND = "<kind>"


def type_address(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def encode_value(value: Any) -> Any:
    """`value` as JSON. Raises `NotRestorable` if it could not be had back equal."""
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, Message):
        return {_KIND: "message", **encode_message(value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return {
            _KIND: "model",
            "type": type_address(type(value)),
            "value": dump_model(value),
        }
    if is_dataclass(value) and not isinstance(value, type):
        members = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        return {
            _KIND: "dataclass",
            "type": type_address(type(value)),
            "value": encode_value(members),
        }
    if type(value) in (list, tuple, set, frozenset):
        items = [encode_value(item) for item in value]
        if type(value) is list:
            return items
        if isinstance(value, (set, frozenset)):
            items.sort(key=lambda item: json.dumps(item, sort_keys=True))
        return {_KIND: type(value).__name__, "value": items}
    if type(value) is dict and all(isinstance(key, str) for key in value) and _KIND not in value:
        return {key: encode_value(item) for key, item in value.items()}
    if type(value) is float and value == value and abs(value) != float("inf"):
        return value
    raise NotRestorable(
        f"{value!r} cannot be written so that a later process has it back. Return a str, a "
        f"`Message`, a pydantic model, or a value that JSON has."
    )


def dump_model(model: BaseModel) -> Any:
    """A pydantic model as JSON from which it is had back equal. Raises `NotRestorable`."""
    try:
        data = model.model_dump(
            mode="json", by_alias=True, round_trip=True, serialize_as_any=True, warnings=False
        )
        if type(model).model_validate(data) == model:
            return data
    except ValueError:  # pydantic's own errors are some of these
        pass
    raise NotRestorable(
        f"{model!r} cannot be written as JSON and had back equal: see that "
        f"`{type(model).__name__}.model_validate` takes what `model_dump(mode='json')` gives."
    )


def decode_value(value: Any) -> Any:
    """What `encode_value` was given. Raises `NotRestorable` if its class is not defined here."""
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_KIND)
    if kind is None:
        return {key: decode_value(item) for key, item in value.items()}
    if kind == "message":
        return decode_message(value)
    if kind == "model":
        return model_type(value["type"]).model_validate(value["value"])
    if kind == "dataclass":
        return subclass_at(object, value["type"])(**decode_value(value["value"]))
    items = [decode_value(item) for item in value["value"]]
    made: Any = {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](items)
    return made


def encode_message(message: Message) -> dict[str, Any]:
    data: dict[str, Any] = {"content": message.content, "role": message.role}
    if message.cause_by:
        data["cause_by"] = message.cause_by
    if message.sent_from:
        data["sent_from"] = message.sent_from
    data["send_to"] = sorted(message.send_to)
    if message.instruct_content is not None:
        data["instruct"] = encode_value(message.instruct_content)
    if message.metadata:
        data["metadata"] = encode_value(message.metadata)
    return data


def decode_message(data: dict[str, Any]) -> Message:
    return Message(
        data["content"],
        role=data["role"],
        cause_by=data.get("cause_by", ""),
        sent_from=data.get("sent_from", ""),
        send_to=data["send_to"],
        instruct_content=decode_value(data.get("instruct")),
        metadata=decode_value(data.get("metadata")),
    )


def model_type(address: str) -> type[BaseModel]:
    """The pydantic model of this address. Raises `NotRestorable` if the program has none."""
    from pydantic import BaseModel

    found: type[BaseModel] = subclass_at(BaseModel, address)
    return found


def subclass_at(base: type, address: str) -> Any:
    """The subclass of `base` with this address, the latest defined if there are several."""
    at_address = _at(address)
    if at_address is not None and issubclass(at_address, base) and at_address is not base:
        return at_address
    found = [kind for kind in _below(base) if type_address(kind) == address]
    if not found:
        raise NotRestorable(
            f"The record has a `{address}`, and this program has defined no such "
            f"`{base.__name__}`. Import its module first; if it was renamed, an alias under the "
            f"old name will do."
        )
    return found[-1]


def _at(address: str) -> type | None:
    """The class that a module which is imported has under this address, without a search."""
    parts = address.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        thing: Any = sys.modules.get(".".join(parts[:cut]))
        if thing is not None:
            for name in parts[cut:]:
                thing = getattr(thing, name, None)
            return thing if isinstance(thing, type) and type_address(thing) == address else None
    return None


def _below(base: type) -> list[type]:
    seen: dict[type, None] = {}
    stack: list[type] = [base]
    while stack:
        below: list[type] = type.__subclasses__(stack.pop())
        for kind in below:
            if kind not in seen:
                seen[kind] = None
                stack.append(kind)
    return list(seen)
