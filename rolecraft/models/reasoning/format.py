"""What a family of models writes around its reasoning.

A `ReasoningFormat` is data: markers, and what may be left out. The engine of
`rolecraft.models.tool_calls` reads reasoning and tool calls in one pass by it, so that a `<think>`
in the arguments of a call is data, and so is a call that is quoted in a thought.
"""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningFormat:
    r"""Markers around reasoning, and the rules that hold between them.

    Markers are literal. A line break that belongs to a marker is part of it (`<think>\n`); all
    other white space stays as the model wrote it. Of two markers that match at one place the longer
    counts. A marker between two backticks is quoted, and data.

    - A block begins at one of `opens` and ends at the next of `closes`. Open markers at its very
      beginning, white space aside, are dropped; any other one in a block is data.
    - A block that is never closed reaches to the first of `ends_at`, else to the end of the text.
    - Reasoning that is white space only is none.
    """

    name: str
    opens: tuple[str, ...]
    closes: tuple[str, ...]
    ends_at: tuple[str, ...] = ()
    """Markers of tool calls that end a block which is never closed. They are no part of it."""
    drops: tuple[str, ...] = ()
    """Markers outside blocks that are no content, such as those around an answer."""
    repeats: bool = True
    """Whether a marker of `closes` after a block is dropped: models repeat it."""
    strays: bool = False
    """Whether one without any block before it is dropped, too."""
    starts_inside: bool | None = None
    """Whether an answer begins in a block, when the caller does not say.

    True where the chat template writes the open marker, which the answer then lacks. None: it may;
    a close marker that no open marker precedes then shows that the text before it was reasoning.
    Where the caller says that an answer begins outside, such a close marker is data.
    """
    opens_again: bool = True
    """Whether a block may begin after content."""

    def __post_init__(self) -> None:
        if not self.closes or "" in (*self.opens, *self.closes, *self.ends_at, *self.drops):
            raise UsageError(
                f"The reasoning format {self.name!r} needs at least one of `closes`, "
                f"and none of its markers may be empty."
            )
