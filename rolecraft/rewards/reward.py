"""Rewards: pure functions of signals, put together with `+`, `-` and numbers.

Invariant: the shares of a breakdown add up to its value, so that one can always say which
measurement paid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rolecraft.errors import UsageError
from rolecraft.rewards.signals import Signals
from rolecraft.trajectories.events import Signal
from rolecraft.trajectories.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class RewardBreakdown:
    """A reward and where it comes from.

    `value` is the team's scalar; `shares` what each part of the reward gave (they add up to
    `value`); `roles` the scalar of each role, the team's where nothing else was said.
    """

    value: float
    shares: dict[str, float] = field(default_factory=dict)
    roles: dict[str, float] = field(default_factory=dict)


class Reward(ABC):
    """A function of signals. Add rewards, subtract them, multiply them by numbers."""

    @abstractmethod
    def shares(self, signals: Signals) -> dict[str, float]:
        """What each named part gives; the reward is their sum."""

    def __call__(self, signals: Signals | Iterable[Signal] | Trajectory) -> RewardBreakdown:
        """Score what was measured: a `Signals`, a list of `Signal`, or a whole trajectory."""
        team: tuple[str, ...] = ()
        if isinstance(signals, Trajectory):
            team = tuple(role["name"] for role in signals.about.get("roles", ()))
            signals = signals.signals
        if not isinstance(signals, Signals):
            signals = Signals(signals)
        shares = self.shares(signals)
        value = sum(shares.values())
        return RewardBreakdown(value, shares, dict.fromkeys(team, value))

    def __add__(self, other: Reward | float) -> Reward:
        return _Sum(self, _reward(other))

    __radd__ = __add__

    def __sub__(self, other: Reward | float) -> Reward:
        return _Sum(self, _Scaled(_reward(other), -1.0))

    def __rsub__(self, other: float) -> Reward:
        return _Sum(_reward(other), _Scaled(self, -1.0))

    def __mul__(self, factor: float) -> Reward:
        if not isinstance(factor, (int, float)):
            raise UsageError(
                f"A reward can be multiplied by a number, not by {factor!r}. For a condition, "
                f"write it into one `@reward` function."
            )
        return _Scaled(self, float(factor))

    __rmul__ = __mul__

    def __neg__(self) -> Reward:
        return _Scaled(self, -1.0)


@dataclass(frozen=True, slots=True)
class _Function(Reward):
    name: str
    function: Callable[[Signals], float]

    def shares(self, signals: Signals) -> dict[str, float]:
        return {self.name: float(self.function(signals))}


@dataclass(frozen=True, slots=True)
class _Scaled(Reward):
    inner: Reward
    factor: float

    def shares(self, signals: Signals) -> dict[str, float]:
        return {name: self.factor * share for name, share in self.inner.shares(signals).items()}


@dataclass(frozen=True, slots=True)
class _Sum(Reward):
    first: Reward
    second: Reward

    def shares(self, signals: Signals) -> dict[str, float]:
        shares = self.first.shares(signals)
        for name, share in self.second.shares(signals).items():
            shares[name] = shares.get(name, 0.0) + share
        return shares


def reward(function: Callable[[Signals], float]) -> Reward:
    """Make a reward of a function from `Signals` to a number. Use it as a decorator."""
    return _Function(function.__name__, function)


def _reward(thing: Reward | float) -> Reward:
    if isinstance(thing, Reward):
        return thing
    value = float(thing)
    return _Function("constant", lambda _: value)


@reward
def turns(signals: Signals) -> float:
    """Turns that roles took: subtract a little of it to make short runs worth more."""
    return signals["turns"]
