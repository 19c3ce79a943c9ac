"""A running average of each group's rewards, as the baseline that they are compared with.

In a zero-sum game, and where every attempt at a task earns the same, the mean of a group says
nothing; what the role earned in earlier steps does. SPIRAL's role-conditioned advantage estimation
(arXiv 2506.24119) keeps one average a role and game.

Invariant: a reward is never compared with an average that it is part of. The averages move after
they were used, and the order of a batch is of no matter.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from rolecraft.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ema:
    """A = R - b, and then b <- decay b + (1 - decay) R for every reward of the batch.

    Each group of `Credit.group` has its own b, which begins as `start`. Of a batch, n rewards of
    one group move it at once by their mean: b <- decay^n b + (1 - decay^n) mean.
    """

    decay: float = 0.95
    start: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise UsageError(
                f"`Ema(decay=...)` wants a number from 0 to below 1, got {self.decay!r}."
            )
        if not math.isfinite(self.start):
            raise UsageError(f"`Ema(start=...)` wants a finite number, got {self.start!r}.")


@dataclass(frozen=True, slots=True)
class CreditState:
    """What credit assignment remembers from step to step; a checkpoint keeps `to_dict()`."""

    averages: Mapping[str, float] = field(default_factory=dict)
    """The running average of each group."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data: strings and numbers, which JSON gives back to the bit."""
        return {"averages": dict(self.averages)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CreditState:
        """From what `to_dict` made. Raises `UsageError` for anything else."""
        averages = data.get("averages") if isinstance(data, Mapping) else None
        if not isinstance(averages, Mapping) or not all(
            isinstance(name, str) and isinstance(value, (int, float)) and math.isfinite(value)
            for name, value in averages.items()
        ):
            raise UsageError(f"This is no state of credit assignment: {data!r}.")
        return cls({name: float(value) for name, value in averages.items()})


def against_average(
    rewards: Sequence[float], groups: Sequence[Hashable], *, ema: Ema, state: CreditState
) -> tuple[list[float], CreditState]:
    """Each reward less the running average of its group; and the state after these rewards."""
    names = [_name(group) for group in groups]
    averages = dict(state.averages)
    advantages = [
        reward - averages.get(name, ema.start) for reward, name in zip(rewards, names, strict=True)
    ]
    members: dict[str, list[float]] = {}
    for reward, name in zip(rewards, names, strict=True):
        members.setdefault(name, []).append(reward)
    for name, its_rewards in members.items():
        kept = ema.decay ** len(its_rewards)
        averages[name] = kept * averages.get(name, ema.start) + (1 - kept) * fmean(its_rewards)
    return advantages, CreditState(averages)


def _name(group: Hashable) -> str:
    """A group's name as JSON can keep it."""
    try:
        return json.dumps(group)
    except TypeError:
        return repr(group)
