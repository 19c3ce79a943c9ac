"""What a parser gives: text, reasoning, calls, and what it could not read.

Every character of a model's output ends up in `content`, in `reasoning`, in a call, in a marker of
the format, or in the `text` of a diagnostic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rolecraft.messages import ToolCall

DiagnosticKind = Literal[
    "malformed call",  # begins like a call and cannot be read; its text stays in the content
    "incomplete call",  # the text ends within it; kept as a call with `incomplete` set, too
    "unknown tool",  # a call of a tool that was not offered; `call` has it
    "text in a call",  # between a call's arguments and its end; no part of the content
    "text after calls",  # where the format allows none; no part of the content
]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something in a model's output that is no good call and no plain text."""

    kind: DiagnosticKind
    text: str
    """The text in question, as the model wrote it."""
    at: int
    """Where `text` begins in the model's output, in characters."""
    why: str = ""
    """What is wrong with it, for people."""
    call: ToolCall | None = None
    """The call, if it could be read and was left out for another reason."""


@dataclass(slots=True)
class ParsedOutput:
    """One answer of a model, taken apart."""

    content: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    """In order. One that is `incomplete` was cut off and must not be executed."""
    diagnostics: list[Diagnostic] = field(default_factory=list)


@dataclass(slots=True)
class ContentPiece:
    """Some of the answer's text, certain not to belong to a call or to the reasoning."""

    text: str


@dataclass(slots=True)
class ReasoningPiece:
    """Some of the reasoning."""

    text: str


@dataclass(slots=True)
class CallPiece:
    """A whole call, `index` counting from 0. An incomplete one comes last, if at all."""

    index: int
    call: ToolCall


@dataclass(slots=True)
class TakenBack:
    """All text given as content so far is reasoning.

    Comes only where nobody said whether the answer starts in reasoning.
    """


Piece = ContentPiece | ReasoningPiece | CallPiece | TakenBack
