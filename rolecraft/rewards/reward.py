"""Rewards: pure functions of the log, put together with `+`, `-` and numbers.

Invariant: the shares of a breakdown add up to its value, so that one can always say which
measurement paid. A reward asks nobody and changes nothing: what it needs beyond the environment's
signals is measured before (`measures`) and logged, so that a stored run is scored as a fresh one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.rewards.breakdown import RewardBreakdown
from rolecraft.rewards.signals import Signals
from rolecraft.trajectories.events import FailureFinding, Signal
from rolecraft.trajectories.trajectory import Trajectory


class Reward(ABC):
    """A function of signals. Add rewards, subtract them, multiply and divide them by numbers."""

    @abstractmethod
    def shares(self, signals: Signals) -> dict[str, float]:
        """What each named part gives the team; the reward is their sum."""

    def role_shares(self, signals: Signals, role: str) -> dict[str, float]:
        """What each named part gives a role: what it gives the team, unless overridden."""
        return self.shares(signals)

    @property
    def parts(self) -> tuple[Reward, ...]:
        """The rewards that this one is made of."""
        return ()

    @property
    def label(self) -> str:
        """What it is called in the names of shares."""
        return type(self).__name__.lower()

    def tree(self) -> Iterator[Reward]:
        """This reward, and all that it is made of."""
        yield self
        for part in self.parts:
            yield from part.tree()

    def value(self, signals: Signals) -> float:
        """The team's scalar alone."""
        return float(sum(self.shares(signals).values()))

    def __call__(
        self,
        signals: Signals | Iterable[Signal] | Trajectory,
        *,
        findings: Iterable[FailureFinding] = (),
    ) -> RewardBreakdown:
        """Score what was measured: a `Signals`, a list of `Signal`, or a whole trajectory.

        `findings` are what is said about the run's failures, if anything was.
        """
        team: tuple[str, ...] = ()
        if isinstance(signals, Trajectory):
            team = tuple(role["name"] for role in signals.about.get("roles", ()))
            signals = Signals(signals.signals, trajectory=signals, findings=findings)
        if not isinstance(signals, Signals):
            signals = Signals(signals, findings=findings)
        signals = signals.anew()
        shares, steps = self.shares(signals), signals.take_steps()
        by_role: dict[str, dict[str, float]] = {}
        for name in team:
            by_role[name] = self.role_shares(signals, name)
            # A role's steps count as much as what gave them counts for that role.
            own = [each for each in signals.take_steps() if each.role == name]
            steps = [each for each in steps if each.role != name] + own
        steps.sort(key=attrgetter("event"))
        evidence = signals.evidence
        given = dict.fromkeys([*shares, *(name for each in by_role.values() for name in each)])
        opinions = signals.opinions
        return RewardBreakdown(
            sum(shares.values()),
            shares,
            {name: sum(each.values()) for name, each in by_role.items()},
            by_role,
            {share: names for share, names in evidence.items() if share in given},
            tuple(share for share in given if not opinions.isdisjoint(evidence.get(share, ()))),
            tuple(steps),
        )

    def __add__(self, other: Reward | float) -> Reward:
        return _Sum(self, as_reward(other))

    __radd__ = __add__

    def __sub__(self, other: Reward | float) -> Reward:
        return _Sum(self, _Scaled(as_reward(other), -1.0))

    def __rsub__(self, other: float) -> Reward:
        return _Sum(as_reward(other), _Scaled(self, -1.0))

    def __mul__(self, factor: float) -> Reward:
        if not isinstance(factor, (int, float)):
            raise UsageError(
                f"A reward can be multiplied by a number, not by {factor!r}. For a condition, "
                f"write `Gate(condition, reward)`, or it into one `@reward` function."
            )
        return _Scaled(self, float(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Reward:
        if not isinstance(divisor, (int, float)) or divisor == 0:
            raise UsageError(f"A reward can be divided by a number but 0, not by {divisor!r}.")
        return self * (1 / divisor)

    def __neg__(self) -> Reward:
        return _Scaled(self, -1.0)


class Composed(Reward):
    """A reward made of others, which may give each role something else. Write `given`."""

    @abstractmethod
    def given(self, signals: Signals, role: str | None) -> dict[str, float]:
        """The shares of a role; None: those of the team."""

    def shares(self, signals: Signals) -> dict[str, float]:
        return self.given(signals, None)

    def role_shares(self, signals: Signals, role: str) -> dict[str, float]:
        return self.given(signals, role)


def shares_of(reward: Reward, signals: Signals, role: str | None) -> dict[str, float]:
    """What a reward gives a role; None: the team."""
    return reward.shares(signals) if role is None else reward.role_shares(signals, role)


def added(*several: dict[str, float]) -> dict[str, float]:
    """Shares put together; those of the same name are added."""
    shares: dict[str, float] = {}
    for each in several:
        for name, share in each.items():
            shares[name] = shares[name] + share if name in shares else share
    return shares


@dataclass(frozen=True, slots=True)
class _Function(Reward):
    name: str
    function: Callable[[Signals], Any]

    @property
    def label(self) -> str:
        return self.name

    def shares(self, signals: Signals) -> dict[str, float]:
        return {self.name: signals.value_of(self.name, self.function)}


@dataclass(frozen=True, slots=True)
class _Scaled(Composed):
    inner: Reward
    factor: float

    @property
    def parts(self) -> tuple[Reward, ...]:
        return (self.inner,)

    @property
    def label(self) -> str:
        return self.inner.label

    def given(self, signals: Signals, role: str | None) -> dict[str, float]:
        shares = shares_of(self.inner, signals.weighted(self.factor), role)
        return {name: self.factor * share for name, share in shares.items()}


@dataclass(frozen=True, slots=True)
class _Sum(Composed):
    first: Reward
    second: Reward

    @property
    def parts(self) -> tuple[Reward, ...]:
        return (self.first, self.second)

    @property
    def label(self) -> str:
        return f"{self.first.label}+{self.second.label}"

    def given(self, signals: Signals, role: str | None) -> dict[str, float]:
        first, second = (shares_of(part, signals, role) for part in self.parts)
        return added(first, second)


def reward(function: Callable[[Signals], float | Awaitable[float]]) -> Reward:
    """Make a reward of a function from `Signals` to a number, sync or async. A decorator.

    It is a function of the log and of nothing else. What has to look at the sandbox is a `check`.
    """
    return _Function(name_of(function), function)


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called, also one without a name of its own. Raises `UsageError`."""
    if not callable(function) or isinstance(function, Reward):
        raise UsageError(f"Expected a function of `Signals`, got {function!r}.")
    inner = function.func if isinstance(function, partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def signal(name: str) -> Reward:
    """The latest value of a signal, as a reward; its share has the signal's name."""
    return _Function(name, itemgetter(name))


def as_reward(thing: Any) -> Reward:
    """A reward, or a number as the reward that is always so much. Raises `UsageError`."""
    if isinstance(thing, Reward):
        return thing
    if isinstance(thing, bool) or not isinstance(thing, (int, float)):
        raise UsageError(
            f"Expected a reward or a number, got {thing!r}. Write `@reward` above a function, or "
            f"`signal(name)` for a signal."
        )
    return _Function("constant", partial(_always, value=float(thing)))


def _always(signals: Signals, *, value: float) -> float:
    return value


@reward
def turns(signals: Signals) -> float:
    """Turns that roles took: subtract a little of it to make short runs worth more."""
    return signals["turns"]
