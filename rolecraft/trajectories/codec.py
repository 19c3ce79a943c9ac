"""Events to JSON lines and back. Fields at their default are left out; key order is fixed.

Every line is JSON that strict parsers read (RFC 8259), whatever a program put into an event:

- A number that JSON does not know is written as the string "NaN", "Infinity" or "-Infinity". It
  comes back as a number in fields that are numbers (log-probabilities, prices, a signal's value)
  and as that string in `data`.
- A lone surrogate (half of a character, from a broken model answer) is written as an escape and
  comes back as it was; two halves in a row come back as the character that they mean.
- Anything else that JSON does not have is written as the nearest thing it has (a set as a sorted
  list, a model as an object), or else as text. Memory addresses are left out, so that the same
  program writes the same bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rolecraft.trajectories.events import (
    EVENT_KINDS,
    SCHEMA_VERSION,
    Artifact,
    Event,
    FailureFinding,
    Signal,
    TokenSpan,
    Usage,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_names: Callable[[Any], tuple[str, ...]] = cache(lambda kind: tuple(f.name for f in fields(kind)))
_PARTS = {"usage": Usage, "artifact": Artifact, "tokens": TokenSpan}
_SIGNAL_DATA = frozenset({"name", "value", "unit", "source", "cost"})
_LARGEST = 2**53 - 1
"""Greatest whole number that every JSON reader holds exactly."""
EVENT_KEYS = frozenset(_names(Event))


def encode_event(event: Event) -> bytes:
    """One line, newline included."""
    return encode_line(event_members(event))


def event_members(event: Event) -> dict[str, Any]:
    """The members of an event's line, in their order."""
    record: dict[str, Any] = {"seq": event.seq, "kind": event.kind, "time": event.time}
    if event.role:
        record["role"] = event.role
    if event.cause is not None:
        record["cause"] = event.cause
    if event.to:
        record["to"] = event.to
    if event.content:
        record["content"] = event.content
    if event.data:
        record["data"] = event.data
    if event.usage is not None:
        record["usage"] = usage_members(event.usage)
    if event.artifact is not None:
        record["artifact"] = _shallow(event.artifact)
    if event.tokens is not None:
        record["tokens"] = _shallow(event.tokens)
    return record


def usage_members(usage: Usage) -> dict[str, Any]:
    """The members of a usage in an event's line; `cached_tokens` only where there are some."""
    record: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "usd": usage.usd,
        "calls": usage.calls,
    }
    if usage.cached_tokens:
        record["cached_tokens"] = usage.cached_tokens
    return record


def encode_finding(finding: FailureFinding) -> bytes:
    """One line of a findings file, newline included."""
    return encode_line(_shallow(finding))


def encode_signal(signal: Signal) -> bytes:
    """One line of a file of signals that were reported later, newline included."""
    record: dict[str, Any] = {"name": signal.name, "value": signal.value, "source": signal.source}
    for key in ("unit", "time", "role", "step", "cost"):
        if getattr(signal, key) not in ("", 0, None) or (key == "step" and signal.step == 0):
            record[key] = getattr(signal, key)
    return encode_line(record)


def encode_line(record: dict[str, Any]) -> bytes:
    """A JSON object as one line, newline included. Never fails for a value that JSON lacks."""
    try:
        text = _encode(record)
    except (ValueError, TypeError, RecursionError):  # NaN, a tuple as key, a list within itself
        text = _encode(_strict(record, ()))
    # Surrogates are all that UTF-8 cannot hold, and only strings hold them: JSON's own escape.
    return (text + "\n").encode("utf-8", "backslashreplace")


def decode_event(record: dict[str, Any]) -> Event:
    """An event from a decoded line. Raises ValueError with the reason."""
    kind, seq, cause = record.get("kind"), record.get("seq"), record.get("cause")
    if not isinstance(kind, str) or kind not in EVENT_KINDS:
        raise ValueError(f"`kind` is {kind!r}, which is no event kind")
    if type(seq) is not int or not 0 <= seq <= _LARGEST:
        raise ValueError(f"`seq` is {seq!r}, expected a whole number from 0")
    if cause is not None and (type(cause) is not int or not 0 <= cause < seq):
        raise ValueError(f"`cause` is {cause!r}, expected the `seq` of an event before {seq}")
    for key, part in _PARTS.items():
        value = record.get(key)
        if isinstance(value, dict) and not value.keys() <= set(_names(part)):
            raise ValueError(f"`{key}` is {value!r}, expected an object with {_names(part)}")
    event: Event = _checked(Event, record)
    usage = event.usage
    counts = (
        (usage.prompt_tokens, usage.completion_tokens, usage.calls, usage.cached_tokens)
        if usage
        else ()
    )
    if any(not 0 <= count <= _LARGEST for count in (event.time, *counts)):
        raise ValueError(
            f"`time` is {event.time}, `usage` {usage}: no number below 0 or above 2^53"
        )
    if kind == "signal":
        if not event.data.keys() <= _SIGNAL_DATA:
            raise ValueError(f"`data` is {event.data!r}, expected {sorted(_SIGNAL_DATA)}")
        signal: Signal = _checked(Signal, event.data)
        event.data["value"] = signal.value
        if signal.cost is not None:
            event.data["cost"] = signal.cost
    return event


def decode_finding(record: dict[str, Any]) -> FailureFinding:
    """A finding from a decoded line. Raises ValueError with the reason."""
    if unknown := record.keys() - set(_names(FailureFinding)):
        raise ValueError(f"unknown keys {sorted(unknown)}")
    finding: FailureFinding = _checked(FailureFinding, record)
    return finding


def decode_signal(record: dict[str, Any]) -> Signal:
    """A signal from a decoded line. Raises ValueError with the reason."""
    if unknown := record.keys() - set(_names(Signal)):
        raise ValueError(f"unknown keys {sorted(unknown)}")
    signal: Signal = _checked(Signal, record)
    return signal


def decode_header(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Trajectory id and `about` from a journal's first line. Raises ValueError with the reason."""
    about = dict(record)
    check_version(about.pop("schema_version", None))
    trajectory = about.pop("trajectory", None)
    if not isinstance(trajectory, str):
        raise ValueError(f"`trajectory` is {trajectory!r}, expected the trajectory's id")
    return trajectory, about


class NewerVersion(ValueError):
    """A file was written by a Rolecraft newer than this one."""


def check_version(version: object) -> None:
    """Raise ValueError unless this Rolecraft reads `schema_version` `version`."""
    if type(version) is not int or version < 1:
        raise ValueError(f"`schema_version` is {version!r}, expected a whole number from 1")
    if version > SCHEMA_VERSION:
        raise NewerVersion(
            f"it has schema version {version}; this Rolecraft reads up to {SCHEMA_VERSION}. "
            "Update it, in a clone of Rolecraft, with: git pull && pip install ."
        )


def parse_line(line: bytes) -> dict[str, Any]:
    """The JSON object in a line. Raises ValueError with the reason."""
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object, got {type(record).__name__}")
    return record


def _shallow(part: Any) -> dict[str, Any]:
    """`asdict` without its deep copies, which cost more than the encoding."""
    return {name: getattr(part, name) for name in _names(type(part))}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # whoever only records never needs it

    return TypeAdapter(kind)


def _checked(kind: Any, record: dict[str, Any]) -> Any:
    """A dataclass from untrusted data, its first flaw as a ValueError of one line."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python(record)
    except ValidationError as error:
        flaw = error.errors(include_url=False)[0]
        where = ".".join(map(str, flaw["loc"]))
        raise ValueError(f"`{where}` is {_short(flaw['input'])}: {flaw['msg']}") from None


def _short(value: object, width: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= width else text[:width] + "…"


def _plain(thing: Any) -> Any:
    """The nearest thing that JSON has: what the encoder asks for when it does not know a type."""
    if isinstance(thing, (set, frozenset)):
        return sorted(thing, key=encode_key)
    if isinstance(thing, (bytes, bytearray)):
        return thing.decode("utf-8", "backslashreplace")
    if isinstance(thing, type):
        return f"{thing.__module__}.{thing.__qualname__}"
    if is_dataclass(thing):
        return _shallow(thing)
    if hasattr(thing, "model_dump"):  # pydantic
        return thing.model_dump(mode="json")
    if hasattr(thing, "tolist"):  # numpy and torch: numbers and arrays of them
        return thing.tolist()
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(thing))


def encode_key(thing: Any) -> str:
    """A text to sort by that does not depend on the process."""
    return json.dumps(_strict(thing, ()), sort_keys=True)


def _strict(thing: Any, above: tuple[int, ...]) -> Any:
    """A copy that strict JSON can hold; the slow way, taken only where the fast one failed."""
    if thing is None or isinstance(thing, (str, bool)):
        return thing
    if isinstance(thing, int):
        # Python refuses to print integers of more than 4,300 digits in decimal.
        return thing if thing.bit_length() < 10_000 else hex(thing)
    if isinstance(thing, float):
        if math.isfinite(thing):
            return thing
        return "NaN" if math.isnan(thing) else "Infinity" if thing > 0 else "-Infinity"
    if id(thing) in above or len(above) > 100:
        return "<circular>" if id(thing) in above else "<nested too deeply>"
    above = (*above, id(thing))
    if isinstance(thing, dict):
        return {_key(key): _strict(value, above) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_strict(item, above) for item in thing]
    return _strict(_plain(thing), above)


def _key(key: Any) -> str:
    key = _strict(key, ())
    return key if isinstance(key, str) else json.dumps(key)


def _encoder() -> Callable[[Any], str]:
    """`JSONEncoder.encode`, without starting an encoder anew for every line.

    Every run is recorded, and starting one takes longer than most lines.
    """
    made = json.JSONEncoder(
        ensure_ascii=False,
        separators=(",", ":"),
        default=_plain,
        allow_nan=False,
        check_circular=False,  # a circle is a RecursionError all the same
    )
    start = getattr(json.encoder, "c_make_encoder", None)
    if start is None:  # an interpreter without it
        return made.encode
    in_parts = start(
        None, _plain, json.encoder.encode_basestring, None, ":", ",", False, False, False
    )
    return lambda thing: "".join(in_parts(thing, 0))


_encode = _encoder()
