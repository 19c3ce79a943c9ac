"""The JSON values of a file, and what of them is a label.

A file may hold one value, a value a line, or values that are printed one after the other over
several lines; all three are read alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats._said import Said, as_text, looks_like_message, read_message
from rolecraft.failure_taxonomy.formats.base import Source
from rolecraft.trajectories.trajectory import Trajectory

_LABEL = re.compile(
    r"(^|[._\s-])(scores?|feedbacks?|feedback_stats|evals?|evaluations?|evaluators?|rewards?|"
    r"reward_info|grades?|graded|gold|correct|is_correct|is_corrected|labels?|annotations?|"
    r"annotators?|rating|ground_?truths?|(reference|expected|target)_?(outputs?|answers?)|success|"
    r"golden|(reference|expected)_?(results?|responses?|solutions?|outcomes?|completions?)|"
    r"mistake_(agent|step|reason)|failures?|failure_summary|root_cause)($|[._\s-])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BLANK = re.compile(r"[\s,\x1e]*")

_KEPT = "_json_values"


def is_label(key: str) -> bool:
    """True for a field that by its name says how well a run went: `score`, `expectedOutput`."""
    return _LABEL.search(_CAMEL.sub("_", key)) is not None


def labels_in(fields: Any, *, prefix: str = "") -> dict[str, Any]:
    """The label fields of an object, at any depth; a nested one is named `outer.inner`.

    The object may be JSON in a text.
    """
    fields = _json_in(fields) if isinstance(fields, str) else fields
    found: dict[str, Any] = {}
    hidden = _label_keys(fields) if isinstance(fields, Mapping) else set()
    for key, value in fields.items() if isinstance(fields, Mapping) else ():
        if key in hidden:
            if value not in (None, [], {}, ""):
                found[f"{prefix}{key}"] = value
        elif isinstance(value, Mapping) and prefix.count(".") < 4:
            found |= labels_in(value, prefix=f"{prefix}{key}.")
    return found


def _label_keys(fields: Mapping[Any, Any]) -> set[Any]:
    """The fields of an object that are labels.

    `reference` and `expected` are labels beside what was asked or said, and nowhere else.
    """
    keys = {key for key in fields if is_label(str(key))}
    if _BESIDE & fields.keys():
        keys |= {key for key in fields if str(key).lower() in _IF_BESIDE}
    return keys


def values(source: Source) -> tuple[list[Any], list[str]]:
    """All JSON values of a file, and the places where it has none. Read once."""
    kept: tuple[list[Any], list[str]] | None = source.__dict__.get(_KEPT)
    if kept is None:
        kept = source.__dict__[_KEPT] = _read(source)
    return kept


def records(source: Source) -> list[Any]:
    """The values of a file; of a single list its elements."""
    found, _ = values(source)
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def first_record(source: Source) -> Any:
    """The first record; None for a file that does not begin with JSON."""
    return next(iter(records(source)), None)


def one_or_all(found: Iterator[Trajectory]) -> Trajectory | list[Trajectory]:
    """The trajectory where there is only one; a file of one trace has the file's name."""
    listed = list(found)
    return listed[0] if len(listed) == 1 else listed


def _read(source: Source) -> tuple[list[Any], list[str]]:
    if source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return [], []
    try:
        text = source.path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [f"byte {error.start} is not UTF-8"]
    except OSError as error:
        raise TraceError(source.path, f"cannot be read: {error.strerror or error}") from None
    decode = json.JSONDecoder().raw_decode
    found: list[Any] = []
    flaws: list[str] = []
    at = _after_blank(text, 0)
    while at < len(text):
        try:
            value, at = decode(text, at)
            found.append(value)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, at) + 1
            reason = getattr(error, "msg", "") or "its JSON cannot be read"
            flaws.append(f"line {line}: {reason}")
            next_line = text.find("\n", at)
            at = len(text) if next_line < 0 else next_line
            if not found and len(flaws) > 20:
                break  # this is no JSON
        at = _after_blank(text, at)
    return found, flaws


def _after_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return at if blank is None else blank.end()


_LISTS = ("messages", "message", "generations", "choices")
"""Fields that hold messages, whatever stands beside them."""

_WRAPPERS = (
    "input", "output", "question", "query", "task", "prompt", "prompts", "text", "content",
    "answer", "response", "result", "value", "final_output", "kwargs", "args",
)  # fmt: skip
"""Fields that hold what was said if nothing else in an object does, in this order."""

_IF_BESIDE = frozenset({"reference", "expected"})
_BESIDE = frozenset({*_LISTS, *_WRAPPERS, "inputs", "outputs"}) - {"value", "kwargs", "args"}
"""Fields beside which one of `_IF_BESIDE` says how a run should have ended."""

_AROUND = frozenset(
    {"id", "object", "created", "model", "usage", "usage_metadata", "finish_reason", "stop_reason",
     "index", "logprobs", "llm_output", "generation_info", "type", "run", "system_fingerprint",
     "response_metadata", "lc", "role", "metadata", "args", "kwargs", "temperature", "tools",
     "stream", "stop", "max_tokens", "tool_choice"}
)  # fmt: skip
"""Fields about a call that say nothing themselves."""


def sayings(value: Any, side: Any, *, depth: int = 0, words: bool = False) -> list[Said]:
    """What was said in a value of any shape: messages, or a text of `side`. Never raises.

    A text may be JSON that an exporter made of such a value. With `words`, and within an object or
    list, it is what was said: a model's own JSON stays as it is, unless it is messages.
    """
    from rolecraft.failure_taxonomy.formats._said import Part

    if value is None or value == "" or value == [] or value == {} or depth > 8:
        return []
    if isinstance(value, str):
        read = _json_in(value)
        if (words or depth) and not _are_messages(read):
            read = None
        found = [] if read is None else _messages_in(read, side, depth)
        shown = _without_labels(read)
        value = value if shown == read else as_text(shown) if shown else ""
        return found or ([Said(side, [Part("text", value)])] if value else [])
    found = _messages_in(value, side, depth)
    if found:
        return found
    value = _without_labels(value)
    return [Said(side, [Part("text", as_text(value))])] if value else []


def _without_labels(value: Any, depth: int = 0) -> Any:
    """A value without its label fields; what lies too deep to be looked through is left out."""
    if not isinstance(value, (dict, list)):
        return value
    if depth > 100:
        return None
    if isinstance(value, list):
        return [_without_labels(each, depth + 1) for each in value]
    hidden = _label_keys(value)
    shown = {key: each for key, each in value.items() if key not in hidden}
    return {key: _without_labels(each, depth + 1) for key, each in shown.items()}


def _are_messages(value: Any) -> bool:
    listed = value if isinstance(value, list) else [value]
    return bool(listed) and all(map(looks_like_message, listed))


def _json_in(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _messages_in(value: Any, side: Any, depth: int) -> list[Said]:
    if isinstance(value, list):
        if value and all(isinstance(each, list) for each in value):
            return [said for each in value for said in _messages_in(each, side, depth + 1)]
        if value and all(looks_like_message(each) for each in value):
            return [said for each in value if (said := read_message(each)) is not None]
        if value and all(isinstance(each, dict) and _holds(each) for each in value):
            return [said for each in value for said in sayings(each, side, depth=depth + 1)]
        if value and all(isinstance(each, str) for each in value):
            return [said for each in value for said in sayings(each, side, depth=depth + 1)]
        return []
    if not isinstance(value, dict):
        return []
    if looks_like_message(value):
        said = read_message(value)
        return [] if said is None else [said]
    held = _holds(value)
    return sayings(value[held], side, depth=depth + 1) if held else []


def _holds(value: Mapping[str, Any]) -> str:
    """The field of an object that holds what was said; "" if other fields say something too."""
    said = {key for key, each in value.items() if each not in (None, "", [], {})}
    for key in _LISTS:
        if key in said:
            return key
    named = [key for key in _WRAPPERS if key in said]
    others = said - {*named[:1], *_AROUND} - _label_keys(value)
    return named[0] if named and not others else ""
