"""From sampled tokens to an answer: text, reasoning, calls of tools.

Which reader reads an answer depends on what was asked: with tools on offer, the parser of the
model's format of calls, which reads reasoning as well; else the reasoning alone, so that a call
that nobody offered is text. Where nothing says how a model thinks, it is whatever reasoning the
answer begins with, as for answers of an API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.base import RESET, Tool
from rolecraft.models.reasoning import ReasoningFormat, format_of, get_format, starts_in_reasoning
from rolecraft.models.reasoning.formats import FORMATS
from rolecraft.models.reasoning.split import AUTO, ReasoningStream, reader_of
from rolecraft.models.tool_calls import (
    ContentPiece,
    ParsedOutput,
    ReasoningPiece,
    TakenBack,
    ToolCallParser,
    choose_format,
    get_parser,
    parser_names,
)
from rolecraft.models.tool_calls.output import Piece

NO_REASONING = "none"
"""Names that nothing of an answer is reasoning."""
# A format has to have a marker: a noncharacter of Unicode is in no answer, and would be data.
_NOTHING = ReasoningFormat(
    name=NO_REASONING, opens=(), closes=("\ufddf",), repeats=False, starts_inside=False
)


class AutoReader:
    """Reads the reasoning that an answer begins with, in whichever format; calls are content."""

    markers = frozenset(
        marker.strip() for form in FORMATS.values() for marker in (*form.opens, *form.closes)
    )

    def parse(
        self, text: str, tools: Sequence[Tool] | None = None, inside: bool | None = None
    ) -> ParsedOutput:
        stream = self.stream(tools, inside)
        stream.feed(text)
        split = stream.finish()
        return (
            ParsedOutput(split.content, split.reasoning) if split.reasoning else ParsedOutput(text)
        )

    def stream(
        self, tools: Sequence[Tool] | None = None, inside: bool | None = None
    ) -> ReasoningStream:
        return ReasoningStream(AUTO, starts_in_reasoning=inside or None)


Reader = ToolCallParser | AutoReader
"""What takes an answer apart."""
_AUTO = AutoReader()


class AnswerReader:
    """Reads the answers of one model. `parser` and `reasoning` as in `TokenModel`."""

    def __init__(
        self,
        tokenizer: Any,
        ends: frozenset[int],
        *,
        name: str,
        template: str,
        parser: ToolCallParser | str | None,
        reasoning: ReasoningFormat | str | None,
    ) -> None:
        self._tokenizer = tokenizer
        self._ends = ends
        self._name = name
        self._template = template
        self._form = _form_of(reasoning, name, template)
        self._plain: Reader | None = _AUTO
        if self._form is not None:
            self._plain = None if self._form == _NOTHING else reader_of(self._form)
        if isinstance(parser, str):
            parser = get_parser(parser)
        self._parser = parser and self._as_ours(parser)
        # Never text: the tokens around a conversation.
        outer = {tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id}
        self._outer = {token for token in outer if token is not None}

    @property
    def parser(self) -> ToolCallParser:
        """The parser of calls. Raises `UsageError` if there is none and none can be guessed."""
        if self._parser is None:
            self._parser = self._as_ours(_guessed(self._name, self._template))
        return self._parser

    def _as_ours(self, parser: ToolCallParser) -> ToolCallParser:
        """`parser` with the model's reasoning, and so that a call of any tool is a call.

        Whoever runs the tools tells the model that there is none of that name.
        """
        grammar = parser.grammar
        if self._form is not None and self._form != grammar.reasoning:
            grammar = replace(grammar, reasoning=self._form)
        return ToolCallParser(grammar, repair=parser.repair, unknown_tools="call")

    def reader(self, tools: Sequence[Tool]) -> Reader | None:
        return self.parser if tools else self._plain

    def decode(self, ids: Sequence[int], reader: Reader | None = None) -> str:
        """The text of sampled tokens.

        Special tokens are left out; for a `reader`, which needs those of its format, only the
        tokens around a conversation are.
        """
        if isinstance(reader, AutoReader):
            ids = [token for token in ids if token not in self._controls]
        elif reader is not None:
            kinds = reader.grammar.kinds
            ids = [
                token
                for token in ids
                if not (token in self._ends or token in self._outer) or self._text(token) in kinds
            ]
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=reader is None, clean_up_tokenization_spaces=False
        )
        return text

    def read(
        self, text: str, tools: Sequence[Tool], prompt: str, *, first_call: int = 0
    ) -> ParsedOutput:
        """Take an answer to `prompt` apart. Calls without an id get one, from `first_call` on."""
        reader = self.reader(tools)
        if reader is None:
            return ParsedOutput(text)
        inside = starts_in_reasoning(prompt, _form_read(reader))
        output = reader.parse(text, tools or None, inside)
        _give_ids(output.tool_calls, first_call)
        return output

    def listener(
        self, tools: Sequence[Tool], prompt: str, hear: Callable[[Piece], None]
    ) -> Callable[[str], None]:
        """Takes an answer in pieces of its text, and says what each of them is."""
        reader = self.reader(tools)
        if reader is None:
            return lambda text: hear(ContentPiece(text))
        stream = reader.stream(tools or None, starts_in_reasoning(prompt, _form_read(reader)))

        def feed(text: str) -> None:
            for part in stream.feed(text):
                hear(part)

        return feed

    @cached_property
    def _controls(self) -> frozenset[int]:
        """The special tokens that are no markers of reasoning, and all that end an answer."""
        added = self._tokenizer.added_tokens_decoder.items()
        special = {token for token, content in added if content.special}
        special.update(self._tokenizer.all_special_ids, self._outer)
        markers = AutoReader.markers
        return self._ends | {token for token in special if self._text(token) not in markers}

    def _text(self, token: int) -> str:
        return str(self._tokenizer.convert_ids_to_tokens(token))


def by_kind(say: Callable[[str], None], think: Callable[[str], None]) -> Callable[[Piece], None]:
    """What says text and reasoning to two hearers; text that proves to be reasoning is `RESET`."""

    def hear(part: Piece) -> None:
        if isinstance(part, ContentPiece):
            say(part.text)
        elif isinstance(part, ReasoningPiece):
            think(part.text)
        elif isinstance(part, TakenBack):
            say(RESET)

    return hear


def _give_ids(calls: Sequence[ToolCall], first: int) -> None:
    """Nine letters and digits, the one form that every template takes; Mistral's demands it."""
    for number, call in enumerate(calls, first):
        call.id = call.id or f"call{number:05d}"


def _form_of(
    reasoning: ReasoningFormat | str | None, name: str, template: str
) -> ReasoningFormat | None:
    """The format of the model's reasoning; None for whatever an answer begins with."""
    if reasoning == NO_REASONING:
        return _NOTHING
    if reasoning == AUTO:
        return None
    if reasoning is None:
        return format_of(name, template)
    return get_format(reasoning) if isinstance(reasoning, str) else reasoning


def _form_read(reader: Reader) -> ReasoningFormat | str:
    return "think" if isinstance(reader, AutoReader) else reader.grammar.reasoning


def _guessed(name: str, template: str) -> ToolCallParser:
    choice = choose_format(name, template)
    if choice.format is None:
        raise UsageError(
            f"`{name}` is offered tools, and how it writes calls is unknown: {choice.why}. Name "
            f"the format with `parser=`; one of {', '.join(parser_names())}."
        )
    return get_parser(choice.format)
