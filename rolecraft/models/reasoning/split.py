"""Text into reasoning and content, whole or as it streams in.

There is one reader: the engine of `rolecraft.models.tool_calls`, here with no format of calls. So a
stream gives what the whole text gives, however it is cut.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.reasoning.format import ReasoningFormat
from rolecraft.models.reasoning.formats import FORMATS, format_of, get_format
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.output import Piece
from rolecraft.models.tool_calls.parser import ToolCallParser, ToolCallStream
from rolecraft.models.tool_calls.source import Reading, Source

AUTO = "auto"
"""Whichever format the answer begins with."""
JSON = "json"
"""The whole answer is one JSON object with the reasoning in a field."""

_JSON_FIELDS = ("thinking", "thought", "thoughts", "reasoning")
_JSON_ANSWERS = ("answer", "response", "content", "output", "final_answer", "result")


@dataclass(frozen=True, slots=True)
class Split:
    """The two parts of an answer, as the model wrote them, white space included."""

    reasoning: str
    content: str
    format: str = ""
    """The name of the format by which it was split; empty where there was nothing to split."""


def split_reasoning(
    text: str | None,
    format: ReasoningFormat | str | None = None,  # noqa: A002
    *,
    model: str = "",
    template: str = "",
    starts_in_reasoning: bool | None = None,
) -> Split:
    """Take the reasoning out of `text`; None, an API's answer without text, is an empty one.

    `format` is a format, its name, `"auto"` or `"json"`. Without one it is that of the `model`, by
    its name or its chat template, and else `"auto"`: the format whose open marker the text begins
    with, white space aside; a text that begins with none has no reasoning.

    `starts_in_reasoning` says whether the prompt ended with the open marker
    (`starts_in_reasoning(prompt, format)` tells); None leaves it to the format. Calls of tools stay
    in the content as they are written: a parser of `rolecraft.models.tool_calls` reads both.
    Raises `UnknownName` for the name of no format, and nothing for any text.
    """
    stream = ReasoningStream(
        format, model=model, template=template, starts_in_reasoning=starts_in_reasoning
    )
    stream.feed(text or "")
    return stream.finish()


class ReasoningStream:
    """An answer that comes in pieces. `finish` gives what `split_reasoning` gives for the whole.

    The arguments are those of `split_reasoning`.
    """

    def __init__(
        self,
        format: ReasoningFormat | str | None = None,  # noqa: A002
        *,
        model: str = "",
        template: str = "",
        starts_in_reasoning: bool | None = None,
    ) -> None:
        self._waiting: list[str] = []
        """Text of which it is not certain yet in which format it is."""
        self._beginning = ""
        """That text from its first character on that is no white space."""
        self._split: Split | None = None
        self._stream: ToolCallStream | None = None
        self._last: Sequence[Piece] = ()
        """What became certain as the end of the answer said its format."""
        self._name = ""
        self._inside = starts_in_reasoning
        form = format or format_of(model, template) or AUTO
        if form == AUTO and starts_in_reasoning:
            form = "think"
        self._mode = form if form in (AUTO, JSON) else ""
        if not self._mode:
            self._begin(get_format(form) if isinstance(form, str) else form)

    def feed(self, delta: str) -> Sequence[Piece]:
        """The next piece of the answer. Returns what is certain since the last one.

        `TakenBack` among it says that all content so far was reasoning.
        """
        if self._split is not None:
            raise UsageError("This answer is finished. Begin another `ReasoningStream`.")
        if self._stream is not None:
            return self._stream.feed(delta)
        self._waiting.append(delta)
        if self._mode != AUTO:
            return ()
        self._beginning += delta if self._beginning else delta.lstrip()
        return self._choose(ended=False) if self._beginning else ()

    def finish(self) -> Split:
        """The answer has ended. Returns all of it; again, when called again."""
        if self._split is None:
            if self._mode == AUTO and self._stream is None:
                self._last = self._choose(ended=True)
            if self._stream is not None:
                output = self._stream.finish()
                self._split = Split(output.reasoning, output.content, self._name)
            else:
                self._split = _from_json("".join(self._waiting))
        return self._split

    @property
    def pieces(self) -> Sequence[Piece]:
        """What became certain by `finish`; empty when asked again. JSON comes without pieces."""
        last, self._last = self._last, ()
        return [*last, *self._stream.pieces] if self._stream is not None else ()

    def _begin(self, form: ReasoningFormat) -> None:
        self._name = form.name
        inside = form.starts_inside if self._inside is None else self._inside
        self._stream = reader_of(form).stream(starts_in_reasoning=inside)

    def _choose(self, *, ended: bool) -> Sequence[Piece]:
        """Decide on the format by what the text begins with, as soon as that is certain."""
        form = _begun(self._beginning, ended)
        if form is None:
            return ()
        self._begin(form)
        assert self._stream is not None
        return self._stream.feed("".join(self._waiting))


@cache
def reader_of(form: ReasoningFormat) -> ToolCallParser:
    """The engine as a reader of this format alone: every call of a tool is content."""
    known = {*form.opens, *form.closes, *form.drops}
    grammar = Grammar(
        name=form.name,
        opens=tuple(marker for marker in form.ends_at if marker not in known),
        body=_AsItIs(),
        write=lambda calls: "",
        reasoning=form,
        ends=(),
    )
    return ToolCallParser(grammar)


class _AsItIs:
    """Reads no calls: their markers are content."""

    def read(self, source: Source, opened: str) -> Reading[None]:
        source.say(opened)
        return
        yield


_NONE = ReasoningFormat(
    name="", opens=(), closes=("\0",), starts_inside=False, repeats=False, opens_again=False
)
"""For a text that has no reasoning. It closes with what it never opens, and so never."""


def _begun(text: str, ended: bool) -> ReasoningFormat | None:
    """The format of which `text` has an open marker at its beginning; None while that may change.

    `_NONE` once it is certain that there is no such format.
    """
    best, longest, may_be = _NONE, 0, False
    for form in FORMATS.values():
        for marker in form.opens:
            marker = marker.rstrip()
            if len(marker) > longest and text.startswith(marker):
                best, longest = form, len(marker)
            may_be = may_be or (len(text) < len(marker) and marker.startswith(text))
    if may_be and not ended:
        return None
    return best


def _from_json(text: str) -> Split:
    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Split("", text)
    if not isinstance(read, dict):
        return Split("", text)
    said = [name for name in _JSON_FIELDS if isinstance(read.get(name), str)]
    if not said:
        return Split("", text)
    reasoning = "\n\n".join(read.pop(name) for name in said)
    if len(read) == 1 and next(iter(read)) in _JSON_ANSWERS:
        (answer,) = read.values()
        if isinstance(answer, str):
            return Split(reasoning, answer, JSON)
    return Split(reasoning, json.dumps(read, ensure_ascii=False) if read else "", JSON)
