"""Reasoning: what models think apart from their answer, and where it stands."""

from typing import TYPE_CHECKING, Any

from rolecraft.models.reasoning.format import ReasoningFormat
from rolecraft.models.reasoning.formats import (
    FORMATS,
    format_of,
    get_format,
    starts_in_reasoning,
)
from rolecraft.models.reasoning.native import NativeReasoning, native_reasoning

if TYPE_CHECKING:
    from rolecraft.models.reasoning.split import ReasoningStream, Split, split_reasoning

__all__ = [
    "FORMATS",
    "NativeReasoning",
    "ReasoningFormat",
    "ReasoningStream",
    "Split",
    "format_of",
    "get_format",
    "native_reasoning",
    "split_reasoning",
    "starts_in_reasoning",
]


def __getattr__(name: str) -> Any:
    # The engine reads the formats of this package, so it cannot be imported before them.
    if name not in ("ReasoningStream", "Split", "split_reasoning"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rolecraft.models.reasoning import split

    return getattr(split, name)
