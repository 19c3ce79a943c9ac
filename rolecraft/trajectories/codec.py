"""Events to JSON lines and back. Fields at their default are left out; key order is fixed."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from rolecraft.trajectories.events import (
    EVENT_KINDS,
    Artifact,
    Event,
    TokenSpan,
    Usage,
)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_USAGE, _ARTIFACT, _TOKENS = (
    frozenset(f.name for f in fields(kind)) for kind in (Usage, Artifact, TokenSpan)
)


def encode_event(event: Event) -> bytes:
    """One line, newline included."""
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
        record["usage"] = asdict(event.usage)
    if event.artifact is not None:
        record["artifact"] = asdict(event.artifact)
    if event.tokens is not None:
        record["tokens"] = asdict(event.tokens)
    return encode_line(record)


def encode_line(record: dict[str, Any]) -> bytes:
    # A lone surrogate (a broken character from a model) must not cost the line: it is escaped.
    return (_encode(record) + "\n").encode("utf-8", "backslashreplace")


def decode_event(record: dict[str, Any]) -> Event:
    """An event from a decoded line. Raises ValueError with the reason."""
    kind = record.get("kind")
    if kind not in EVENT_KINDS:
        raise ValueError(f"`kind` is {kind!r}, which is no event kind")
    seq = record.get("seq")
    if not isinstance(seq, int) or seq < 0:
        raise ValueError(f"`seq` is {seq!r}, expected a whole number from 0")
    return Event(
        kind,
        role=record.get("role", ""),
        content=record.get("content", ""),
        to=tuple(record.get("to", ())),
        data=record.get("data", {}),
        cause=record.get("cause"),
        time=record.get("time", 0),
        usage=_part(Usage, _USAGE, record, "usage"),
        artifact=_part(Artifact, _ARTIFACT, record, "artifact"),
        tokens=_part(TokenSpan, _TOKENS, record, "tokens"),
        seq=seq,
    )


def _part(kind: type[Any], known: frozenset[str], record: dict[str, Any], key: str) -> Any:
    value = record.get(key)
    if value is None:
        return None
    if not isinstance(value, dict) or not value.keys() <= known:
        raise ValueError(f"`{key}` is {value!r}, expected an object with {sorted(known)}")
    try:
        return kind(**value)
    except TypeError as error:
        raise ValueError(f"`{key}`: {error}") from None
