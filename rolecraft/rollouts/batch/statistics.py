"""The numbers of a run, counted from its ledger: a resumed run has those of an uninterrupted one.

Invariant: the order of entries changes nothing but the last bits of sums of money.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from math import fsum
from typing import Any

from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.filters import BY_SWITCH, status_of
from rolecraft.rollouts.batch.ledger import Entry, ToolCount


@dataclass(slots=True)
class Statistics:
    """What a ledger adds up to. `add` takes its entries in any number of calls."""

    config: BatchConfig
    known_tools: tuple[str, ...] = ()
    """Every one of them is in `tools`, with zeros where it was never called."""
    statuses: Counter[str] = field(default_factory=Counter)
    """Items by what became of them."""
    ended: Counter[str] = field(default_factory=Counter)
    toolsets: Counter[str] = field(default_factory=Counter)
    """Samples that had each toolset."""
    invented: Counter[str] = field(default_factory=Counter)
    """Samples in which each name was called that no tool has."""
    turns: int = 0
    reasoned: int = 0
    without_reasoning: int = 0
    """Finished samples of which no answer has any."""
    rewards: int = 0
    """Finished samples that were scored; no mean counts the others."""
    unscored: int = 0
    """Finished samples whose reward failed."""
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unpriced: int = 0
    """Calls whose price is unknown: `usd` leaves them out."""
    failed_attempts: int = 0
    _usd: list[float] = field(default_factory=list)
    _rewarded: list[float] = field(default_factory=list)
    _tools: dict[str, list[int]] = field(default_factory=dict)

    def add(self, entry: Entry, before: str = "") -> None:
        """Count an entry; `before` is the status that its item had."""
        if before:
            self.statuses[before] -= 1
        status = status_of(entry, self.config)
        self.statuses[status] += 1
        self.calls += entry.calls
        self.prompt_tokens += entry.prompt_tokens
        self.completion_tokens += entry.completion_tokens
        self.unpriced += entry.unpriced
        if entry.usd is not None:
            _sum(self._usd, entry.usd)
        elif not entry.unpriced:  # an entry of before they were counted
            self.unpriced += entry.calls
        self.failed_attempts += entry.attempts - (status in BY_SWITCH)
        for called in entry.tools:
            counts = self._tools.setdefault(called.tool, [0, 0, 0])
            counts[0] += called.count
            counts[1] += called.success
            counts[2] += called.error
        if entry.status not in BY_SWITCH:
            return
        self.ended[entry.ended] += 1
        if entry.toolsets:
            self.toolsets.update(entry.toolsets)
        if entry.invented:
            self.invented.update(entry.invented)
        self.turns += entry.turns
        self.reasoned += entry.reasoned
        self.without_reasoning += bool(entry.turns and not entry.reasoned)
        self.unscored += bool(entry.reward is None and entry.error)
        if entry.reward is not None:
            self.rewards += 1
            _sum(self._rewarded, entry.reward)

    @property
    def usd(self) -> float | None:
        """What was billed for the calls whose price is known, at least; None if that is none."""
        return fsum(self._usd) if self._usd else None

    @property
    def mean_reward(self) -> float | None:
        """Of the samples that were scored."""
        return fsum(self._rewarded) / self.rewards if self.rewards else None

    @property
    def coverage(self) -> float | None:
        """Share of answers that have reasoning."""
        return self.reasoned / self.turns if self.turns else None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def tools(self) -> tuple[ToolCount, ...]:
        """Every known tool and every name that was called, in the order of names."""
        names = sorted({*self.known_tools, *self._tools})
        counts = ((name, self._tools.get(name, (0, 0, 0))) for name in names)
        return tuple(
            ToolCount(tool=name, count=count, success=success, error=error)
            for name, (count, success, error) in counts
        )

    def to_dict(self) -> dict[str, Any]:
        """For `statistics.json`."""
        return {
            "items": sum(self.statuses.values()),
            "statuses": _counted(self.statuses),
            "ended": _counted(self.ended),
            "failed_attempts": self.failed_attempts,
            "turns": self.turns,
            "turns_with_reasoning": self.reasoned,
            "turns_without_reasoning": self.turns - self.reasoned,
            "reasoning_coverage": self.coverage,
            "samples_without_reasoning": self.without_reasoning,
            "rewards": self.rewards,
            "rewards_that_failed": self.unscored,
            "mean_reward": self.mean_reward,
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "usd": self.usd,
            "unpriced_calls": self.unpriced,
            "toolsets": _counted(self.toolsets),
            "invented_tools": _counted(self.invented),
            "tools": [asdict(tool) for tool in self.tools],
        }


def statistics(
    found: Iterable[Entry], config: BatchConfig, known_tools: Iterable[str] = ()
) -> Statistics:
    """The statistics of entries in the order of their ledger."""
    made = Statistics(config, tuple(known_tools))
    now: dict[bytes, str] = {}
    for entry in found:
        key = entry.item.key
        made.add(entry, now.get(key, ""))
        now[key] = status_of(entry, config)
    return made


def _counted(counter: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(counter.items()) if count}


def _sum(partials: list[float], value: float) -> None:
    """Add exactly (Shewchuk 1997): sums do not depend on the order of what is added."""
    kept = 0
    for other in partials:
        if abs(value) < abs(other):
            value, other = other, value
        high = value + other
        if low := other - (high - value):
            partials[kept] = low
            kept += 1
        value = high
    partials[kept:] = [value]
