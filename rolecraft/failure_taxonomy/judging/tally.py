"""What a judge's calls came to: asked, reused, failed, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from rolecraft.trajectories.events import Usage


def _nothing() -> Usage:
    return Usage(calls=0)


@dataclass(slots=True)
class Tally:
    """Counts of calls. `asked` were answered now, `reused` before, `failed` not at all."""

    asked: int = 0
    reused: int = 0
    failed: int = 0
    retries: int = 0
    """Attempts of answered calls beyond the first of each."""
    unpriced: int = 0
    """Answers asked for now whose price nobody knows."""
    usage: Usage = field(default_factory=_nothing)
    """What was billed now, failed calls included as far as it is known."""
    saved: Usage = field(default_factory=_nothing)
    """What the reused answers cost when they were asked for."""

    def add(self, other: Tally) -> None:
        """Count what another one counted."""
        for name in ("asked", "reused", "failed", "retries", "unpriced", "usage", "saved"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def calls(self) -> int:
        """All that were answered."""
        return self.asked + self.reused

    def __str__(self) -> str:
        """One line, for people."""
        parts = [f"{_calls(self.asked)} made"]
        if self.retries:
            parts[0] += f" ({self.retries} refused or broken attempts repeated)"
        parts.append(f"{self.reused} reused")
        if self.failed:
            parts.append(f"{self.failed} failed")
        tokens = (self.usage.prompt_tokens, self.usage.completion_tokens)
        text = f"{', '.join(parts)}; {tokens[0]:,} prompt and {tokens[1]:,} answer tokens"
        return f"{text}, {_dollars(self)}"


def _calls(number: int) -> str:
    return f"{number:,} {'call' if number == 1 else 'calls'}"


def _dollars(tally: Tally) -> str:
    if not tally.asked and not tally.usage.usd:
        return "$0"
    if tally.usage.usd is None or tally.unpriced == tally.asked:
        return "price unknown"
    unknown = f" and {_calls(tally.unpriced)} of unknown price" if tally.unpriced else ""
    return f"{money(tally.usage.usd)}{unknown}"


def money(usd: float) -> str:
    """An amount of US dollars as people read it: cents, or two figures where it is less."""
    if not usd:
        return "$0"
    return f"${usd:,.2f}" if usd >= 0.1 else f"${usd:.2g}"
