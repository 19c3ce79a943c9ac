"""What a team may do on the web in one piece of work: whom it asks, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.environments.tool_context_web import PageReader, WebSearch
from rolecraft.errors import ToolError, UsageError


class WebUnavailable(ToolError):
    """A provider cannot answer at all now: it is down, refuses the key, or allows no more.

    The model hears of it and may go on. An episode whose searches ended so is not scored.
    Attributes: `provider` (its name), `reason`.
    """

    def __init__(self, provider: str, reason: str) -> None:
        self.provider, self.reason = provider, reason
        super().__init__(f"`{provider}` is not available: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """The providers behind the tools, and what one piece of work may ask of them.

    A `Corpus` is both a `search` and `pages`. Limits are for each run of an action that uses tools.
    Raises `UsageError` for a limit below 1.
    """

    search: WebSearch
    pages: PageReader
    searches: int = 10
    reads: int = 20
    """Pages, or parts of long ones."""
    results: int = 5
    """Of one search."""
    characters: int = 8_000
    """Of a page that are read at once; the rest are further parts."""

    def __post_init__(self) -> None:
        for name in ("searches", "reads", "results", "characters"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"`Web({name}={value!r})` must be a whole number from 1.")
