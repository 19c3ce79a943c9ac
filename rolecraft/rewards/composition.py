"""Conditions and bounds: a reward that is paid only behind a gate, or only up to a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rolecraft.errors import UsageError
from rolecraft.rewards.reward import Composed, Reward, as_reward, shares_of, signal
from rolecraft.rewards.signals import Signals


@dataclass(frozen=True, slots=True, init=False)
class Gate(Composed):
    """`then` where `condition` is at least `at_least`, else `otherwise`.

        Gate("compiles", solved - 0.02 * turns)

    `condition` is a reward, or the name of a signal. A closed gate has one share, `gate:NAME`; it
    costs nothing beyond `otherwise`, so what a failing run should not be able to save (its turns,
    its dollars) belongs behind the gate. Where the condition was not measured it raises
    `MissingSignal`, as every reward does; a condition that is NaN is neither open nor closed: NaN.
    """

    condition: Reward
    then: Reward
    at_least: float
    otherwise: float

    def __init__(
        self,
        condition: Reward | str,
        then: Reward | float,
        *,
        at_least: float = 1.0,
        otherwise: float = 0.0,
    ) -> None:
        gate = signal(condition) if isinstance(condition, str) else as_reward(condition)
        object.__setattr__(self, "condition", gate)
        object.__setattr__(self, "then", as_reward(then))
        object.__setattr__(self, "at_least", at_least)
        object.__setattr__(self, "otherwise", otherwise)

    @property
    def parts(self) -> tuple[Reward, ...]:
        return (self.condition, self.then)

    @property
    def label(self) -> str:
        return self.then.label

    def given(self, signals: Signals, role: str | None) -> dict[str, float]:
        conditions = self.condition.shares(signals.weighted(0))  # it pays nothing itself
        value, evidence = sum(conditions.values()), signals.evidence
        read = [each for share in conditions for each in evidence.get(share, ())]
        if value >= self.at_least:
            shares = shares_of(self.then, signals, role)
            for share in shares:  # what stands behind a gate is paid because of the gate, too
                signals.note(share, read)
            return shares
        name = f"gate:{self.condition.label}"
        signals.note(name, read)
        return {name: value if math.isnan(value) else self.otherwise}


@dataclass(frozen=True, slots=True)
class Clip(Composed):
    """`inner`, but never below `low` nor above `high`.

    What it takes away or adds is a share of its own, `clip:NAME`. By itself its value is the bound
    exactly; in a sum with others it is the bound up to rounding. A value that is NaN stays so.
    """

    inner: Reward
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise UsageError(f"`Clip(low={self.low!r}, high={self.high!r})`: low is above high.")

    @property
    def parts(self) -> tuple[Reward, ...]:
        return (self.inner,)

    @property
    def label(self) -> str:
        return self.inner.label

    def given(self, signals: Signals, role: str | None) -> dict[str, float]:
        shares = shares_of(self.inner, signals, role)
        value = sum(shares.values())
        if value < self.low:
            return with_sum(shares, f"clip:{self.label}", self.low)
        if value > self.high:
            return with_sum(shares, f"clip:{self.label}", self.high)
        return shares


def with_sum(shares: dict[str, float], name: str, value: float) -> dict[str, float]:
    """The shares and one more of this name, so that they add up to exactly `value`.

    Where no float does that, because the others are so much larger, it is the only share.
    """
    others = {each: share for each, share in shares.items() if each != name}
    near = value - sum(others.values())
    for last in (near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)):
        whole = {**others, name: last}
        if sum(whole.values()) == value:
            return whole
    return {name: value}
