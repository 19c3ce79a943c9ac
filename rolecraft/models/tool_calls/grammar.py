"""What a format of tool calls is made of.

A `Grammar` is data: at which markers calls begin, what reads a call from there, what is written
around reasoning, and how calls are written. The engine knows no format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.source import Reading, Source

if TYPE_CHECKING:
    from rolecraft.models.reasoning.format import ReasoningFormat

ENDS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<｜end▁of▁sentence｜>",
)
"""Markers at the end of a turn. They are no content, unless content follows.

They are all special tokens. What could be text (`</s>` is HTML) is for the formats that need it.
"""


def _think() -> ReasoningFormat:
    # Not at the top: what splits reasoning is made of this package.
    from rolecraft.models.reasoning import get_format

    return get_format("think")


class Body(Protocol):
    """Reads what begins at a marker of `Grammar.opens`."""

    def read(self, source: Source, opened: str) -> Reading[None]:
        """Read one call or a section of calls; `opened`, the marker, was read before.

        It gives what it finds by `source.call`, `source.malformed` or `source.cut`, and reads no
        further than the end of what it understood: `source.unread` puts the rest back.
        """


@dataclass(frozen=True, slots=True)
class Bodies:
    """Several bodies, by the markers at which they begin."""

    by_marker: Mapping[str, Body]

    def read(self, source: Source, opened: str) -> Reading[None]:
        return self.by_marker[opened].read(source, opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A format of tool calls. Frozen, and compiled once: any number of parsers use one."""

    name: str
    opens: tuple[str, ...]
    """Markers at which a call or a section of calls begins; none if there are no calls."""
    body: Body
    write: Callable[[Sequence[ToolCall]], str]
    """The inverse of reading: the text of some calls, as the models of this format write them."""
    begin: Callable[[Source], Reading[None]] | None = None
    """Reads the beginning of an answer that does not begin in reasoning, where that is special."""
    also_opens: str = ""
    """A pattern of single characters at which a call may begin, such as `[{\\[]`."""
    reasoning: ReasoningFormat = field(default_factory=_think)
    """What stands around reasoning; `<think>` and `</think>` unless a format says otherwise."""
    ends: tuple[str, ...] = ENDS
    """Markers of the end of a turn: no content, unless content follows."""
    good: Callable[[str, int, Mapping[str, Any] | None], list[ToolCall] | None] | None = None
    """Reads the calls from a place to the end of an answer in one go, where there is nothing to say
    of them but what they are; else None, and `body` reads them. The last argument has the tools."""
    calls_end_reasoning: bool = True
    """Whether a call ends a block of reasoning that is never closed."""
    marks: Marks = field(init=False, repr=False, compare=False)
    """All that ends plain text."""
    kinds: dict[str, str] = field(init=False, repr=False, compare=False)
    """What each marker is: `call`, `think`, `thought`, `drop` or `end`."""
    openings: Marks = field(init=False, repr=False, compare=False)
    """What opens reasoning."""
    closings: Marks = field(init=False, repr=False, compare=False)
    """What closes reasoning."""
    endings: Marks = field(init=False, repr=False, compare=False)
    """What closes reasoning, or ends it if it is never closed."""

    def __post_init__(self) -> None:
        reasoning = self.reasoning
        kinds = {
            **dict.fromkeys(self.ends, "end"),
            **dict.fromkeys(reasoning.drops, "drop"),
            **dict.fromkeys(reasoning.closes, "thought"),
            **dict.fromkeys(reasoning.opens, "think"),
            **dict.fromkeys(self.opens, "call"),
        }
        ending = (*self.opens, *reasoning.ends_at) if self.calls_end_reasoning else ()
        compiled = {
            "kinds": kinds,
            "marks": Marks(kinds, also=self.also_opens),
            "openings": Marks(reasoning.opens),
            "closings": Marks(reasoning.closes),
            "endings": Marks((*reasoning.closes, *ending)),
        }
        for field_name, value in compiled.items():
            object.__setattr__(self, field_name, value)
