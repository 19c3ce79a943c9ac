"""What the rows of the store hold: everything that is computed before SQL sees it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Row

from rolecraft.trajectories.codec import decode_header, encode_event, encode_finding, encode_line
from rolecraft.trajectories.events import Event, FailureFinding, Usage
from rolecraft.trajectories.findings import findings_path
from rolecraft.trajectories.reader import Place, Reader, open_trace
from rolecraft.trajectories.trajectory import signal_of, stop_reason_of

LONGEST = 500
"""Characters of a name that a column holds; of a longer one, the beginning and a hash."""


@dataclass(slots=True)
class Indexed:
    """What the store knows about one trajectory without reading its events."""

    path: str
    """Its journal."""
    id: str
    about: dict[str, Any]
    events: int
    stop_reason: str | None
    usage: Usage
    problems: list[str]


def text_of(name: str) -> str:
    """A name as a column holds it: databases refuse what is very long."""
    text = _storable(name)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 65]}#{hashlib.sha256(text.encode()).hexdigest()}"


def _storable(text: str) -> str:
    """Text without NUL and halves of characters, which databases refuse."""
    if text.isprintable():
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def key_of(path: Path | str) -> str:
    return _storable(str(Path(path).resolve()))


def place_of(row: Row[Any] | None) -> Place:
    return Place() if row is None else Place(**json.loads(row.place))


def changed(row: Row[Any], path: Path) -> bool:
    """True if the part of the journal that was read is no longer what it was."""
    return bool(row.fingerprint != fingerprint(path, place_of(row).offset))


def fingerprint(path: Path, offset: int) -> str:
    """Of the first `offset` bytes of a file: hash of both ends, empty if it is shorter."""
    with open_trace(path) as file:
        if file.seek(0, 2) < offset:
            return ""
        file.seek(0)
        head = file.read(min(4096, offset))
        file.seek(max(0, offset - 4096))
        return hashlib.sha256(head + file.read(min(4096, offset))).hexdigest()


def _findings_fingerprint(path: Path) -> str:
    file = findings_path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""


def summary(row: Row[Any] | None, reader: Reader, batch: list[Event]) -> dict[str, Any]:
    """The row of a trajectory after another batch of its events."""
    usage = _usage_of(row) if row else Usage(calls=0)
    stop = row.stop_reason if row else None
    for event in batch:
        if event.usage is not None:
            usage = usage + event.usage
        if event.kind == "stop":
            stop = stop_reason_of(event)
    name, _ = decode_header(reader.header) if reader.header else (reader.path.stem, {})
    known = json.loads(row.problems) if row else []
    return {
        "path": key_of(reader.path),
        "id": text_of(name),
        "events": (row.events if row else 0) + len(batch),
        "stop_reason": stop if stop is None else text_of(stop),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "usd": usage.usd,
        "calls": usage.calls,
        "problems": json_of([*known, *reader.problems]),
        "place": json_of(asdict(reader.place)),
        "header": None if reader.header is None else json_of(reader.header),
        "fingerprint": fingerprint(reader.path, reader.place.offset),
        "findings_fingerprint": _findings_fingerprint(reader.path),
    }


def _usage_of(row: Row[Any]) -> Usage:
    return Usage(row.prompt_tokens, row.completion_tokens, row.usd, row.calls)


def indexed(row: Row[Any]) -> Indexed:
    name, about = decode_header(json.loads(row.header)) if row.header else (row.id, {})
    problems = json.loads(row.problems)
    return Indexed(row.path, name, about, row.events, row.stop_reason, _usage_of(row), problems)


def json_of(value: Any) -> str:
    return encode_line(value)[:-1].decode()


def event_row(key: int, event: Event) -> dict[str, Any]:
    return {
        "trajectory": key,
        "seq": event.seq,
        "kind": event.kind,
        "role": text_of(event.role),
        "time": event.time,
        "cause": event.cause,
        "line": encode_event(event)[:-1].decode(),
    }


def signal_row(key: int, event: Event) -> dict[str, Any]:
    signal = signal_of(event)
    return {
        "trajectory": key,
        "seq": event.seq,
        "name": text_of(signal.name),
        "role": text_of(signal.role),
        "value": None if signal.value != signal.value else signal.value,
    }


def finding_row(key: int, number: int, finding: FailureFinding) -> dict[str, Any]:
    return {
        "trajectory": key,
        "number": number,
        "mode": text_of(finding.mode),
        "verdict": finding.verdict,
        "role": text_of(finding.role),
        "source": text_of(finding.source),
        "confidence": finding.confidence,
        "line": encode_finding(finding)[:-1].decode(),
    }
