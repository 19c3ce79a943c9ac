"""Mistral: `[TOOL_CALLS]`, and then one of three dialects.

- Up to tokenizer v7: `[{"name": ..., "arguments": {...}, "id": ...}, ...]`, once in an answer.
- v11: `NAME[CALL_ID]ID[ARGS]{...}`, the marker before each call.
- v13: `NAME[ARGS]{...}`; where `[ARGS]` was left out in decoding, `NAME{...}`.

Ids are nine letters and digits. Source: mistral-common's `instruct.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rolecraft.messages import ToolCall
from rolecraft.models.reasoning import get_format
from rolecraft.models.tool_calls.grammar import ENDS, Grammar
from rolecraft.models.tool_calls.json_body import Ends, read_json, take_calls, taking
from rolecraft.models.tool_calls.json_calls import header_name, write_arguments
from rolecraft.models.tool_calls.json_span import json_span
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.registry import register_parser
from rolecraft.models.tool_calls.source import Reading, Source
from rolecraft.models.tool_calls.written_names import begins_name

OPEN, CALL_ID, ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_TURN_ENDS = (*ENDS, "</s>")
_ENDS = Ends((), (OPEN, "</s>"), opens=(OPEN,))
_OPEN = Marks((OPEN,))
_AFTER_NAME = Marks((OPEN, CALL_ID, ARGS, *_TURN_ENDS), also=r"[\s{]")
_AFTER_ID = Marks((OPEN, ARGS, *_TURN_ENDS), also=r"[\s{]")
_MORE = Marks((OPEN, "[", "{"))
_LIST = re.compile(r"[\[{]")
_ID = re.compile("[a-zA-Z0-9]{9}")


@dataclass(frozen=True, slots=True)
class _Body:
    def read(self, source: Source, opened: str) -> Reading[None]:
        raw = opened + (yield from source.blanks())
        while (again := (yield from source.marker(_OPEN))) is not None:
            raw += again + (yield from source.blanks())
        if source.at < len(source.text) and source.text[source.at] in "[{":
            yield from self._list(source, raw)
        else:
            yield from self._named(source, raw)

    def _list(self, source: Source, raw: str) -> Reading[None]:
        """A list of calls, after which there are no more."""
        before = len(source.calls)
        yield from read_json(source, _ENDS, raw, take_calls)
        if len(source.calls) == before:
            return
        parts: list[str] = []
        while True:
            space = yield from source.blanks()
            marker = yield from source.marker(_MORE)
            if marker == OPEN:
                parts += (space, OPEN)
                while (marker := (yield from source.until(_OPEN, parts))) is not None:
                    parts.append(marker)
                break
            source.unread(marker or "")
            span = (yield from json_span(source)) if marker else None
            if span is None or span.state != "whole" or '"name"' not in span.text:
                source.unread(space + (span.text if span is not None else ""))
                break
            parts += (space, span.text)
        if parts:
            source.diagnose("text after calls", "".join(parts), "there is one list in an answer")

    def _named(self, source: Source, raw: str) -> Reading[None]:
        parts: list[str] = []
        marker = yield from source.until(_AFTER_NAME, parts)
        name, call_id = "".join(parts), ""
        if marker == CALL_ID:
            parts.append(CALL_ID)
            begun = len(parts)
            marker = yield from source.until(_AFTER_ID, parts)
            call_id = "".join(parts[begun:])
        if marker is not None and marker.isspace():
            source.unread(marker)
            parts.append((yield from source.blanks()))
            marker = yield from source.marker(_AFTER_NAME)
        raw += "".join(parts)
        if name and marker in ("{", ARGS):
            if marker == ARGS:
                raw += ARGS
            else:
                source.unread("{")
            yield from read_json(
                source, _ENDS, raw, taking(name, call_id), name=name, call_id=call_id
            )
            return
        if marker is not None:
            source.unread(marker)
            source.malformed(raw, "a name and its arguments are expected")
        elif source.ended and source.at == len(source.text) and begins_name(name, source.tools):
            source.cut(raw, name=name, call_id=call_id)
        else:
            source.malformed(raw, "a name and its arguments are expected")


def _write(calls: Sequence[ToolCall]) -> str:
    parts = []
    for call in calls:
        call_id = f"{CALL_ID}{_nine(call.id)}" if call.id else ""
        parts.append(f"{OPEN}{header_name(call)}{call_id}{ARGS}{write_arguments(call)}")
    return "".join(parts)


def _nine(call_id: str) -> str:
    """An id as Mistral's templates demand it: as it is, or one made of it."""
    if _ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


@register_parser("mistral")
def mistral() -> Grammar:
    return Grammar(
        name="mistral",
        opens=(OPEN,),
        body=_Body(),
        write=_write,
        reasoning=get_format("mistral"),
        ends=_TURN_ENDS,
    )
