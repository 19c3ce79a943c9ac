"""The text of an issue: what somebody who has run into the bug would write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rolecraft.synthesis.texts.leaks import Leak

TextSource = Literal[
    "template",  # one of ours, filled in
    "model",  # a model wrote it
    "given",  # somebody else did; it is kept as it is
]
"""Who wrote a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueText:
    """What is said of one task. A line of the ledger `texts.jsonl`."""

    task: str
    """The candidate's id."""
    text: str
    """Markdown. Empty where nothing can be said without naming the solution: `why`."""
    source: TextSource
    leaks: tuple[Leak, ...] = ()
    """What the leak check found: in `text` where it was given, else in the answers of a model that
    were not used."""
    why: str = ""
    """Why there is no text, or why a model's was not used."""
    model: str = ""
    """The model that was asked, whether or not its text was used."""
    usd: float | None = None
    """What it took for that, in US dollars; None if none was asked or the price is unknown."""
    replaced_usd: float = 0.0
    """What the texts took that this one replaces, as far as their prices are known."""

    @property
    def spent_usd(self) -> float:
        """What was paid for this task's texts so far, as far as it is known."""
        return (self.usd or 0.0) + self.replaced_usd

    @property
    def has_text(self) -> bool:
        return bool(self.text)
