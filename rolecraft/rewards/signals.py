"""Signals as a reward function sees them: by name, and it is noted which ones it read."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rolecraft.errors import UnknownName, UsageError
from rolecraft.rewards.breakdown import StepShare
from rolecraft.trajectories.events import FailureFinding, Signal
from rolecraft.trajectories.trajectory import Trajectory

T = TypeVar("T")


def is_opinion(source: str) -> bool:
    """Whether a signal or finding of this source is what a judge thinks, and no measurement."""
    return source.startswith(("judge:", "judge "))


@dataclass(slots=True)
class _Scoring:
    """What is noted while one run is scored."""

    evidence: dict[str, dict[str, None]] = field(default_factory=dict)
    steps: list[StepShare] = field(default_factory=list)
    known: dict[tuple[int, str], tuple[Any, Any]] = field(default_factory=dict)
    """By its owner's id (which is its own as long as it is kept beside) and role."""


class Signals(Mapping[str, float]):
    """What was measured in one run. `signals["tests.failed"]` is the latest value of that name.

    Raises `UnknownName` for a signal that was not logged: a reward never guesses a measurement.
    `trajectory` is the whole record, `findings` what was said about its failures, `role` whom the
    signals are of; None and empty where a reward is given signals only.
    """

    __slots__ = (
        "_findings",
        "_latest",
        "_log",
        "_read",
        "_scoring",
        "_weight",
        "role",
        "trajectory",
    )

    def __init__(
        self,
        log: Iterable[Signal],
        *,
        trajectory: Trajectory | None = None,
        findings: Iterable[FailureFinding] = (),
        role: str = "",
    ) -> None:
        self._log = tuple(log)
        self._latest = {signal.name: signal.value for signal in self._log}
        self.trajectory = trajectory
        self.role = role
        self._findings = tuple(findings)
        self._read: dict[str, None] = {}
        self._scoring = _Scoring()
        self._weight = 1.0

    @property
    def log(self) -> tuple[Signal, ...]:
        """Every signal, in the order in which it was logged."""
        self._read.update(dict.fromkeys(self._latest))
        return self._log

    @property
    def findings(self) -> tuple[FailureFinding, ...]:
        """What was said about the run's failures. A judge's are read as its opinion."""
        self._read.update(dict.fromkeys(_judges(self._findings)))
        return self._findings

    def __getitem__(self, name: str) -> float:
        try:
            value = self._latest[name]
        except KeyError:
            raise MissingSignal("Signal", name, self._latest) from None
        self._read[name] = None
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._latest)

    def __len__(self) -> int:
        return len(self._latest)

    def __repr__(self) -> str:
        return f"Signals({self._latest})"

    def all(self, name: str) -> list[float]:
        """Every value of this name, in order; empty if it was never logged."""
        if name in self._latest:
            self._read[name] = None
        return [signal.value for signal in self._log if signal.name == name]

    def of(self, role: str) -> Signals:
        """The signals that were measured of one role."""
        return self._with([signal for signal in self._log if signal.role == role], role)

    def until(self, count: int) -> Signals:
        """The first `count` signals of the log; `trajectory` and `findings` are still the whole
        run's, so what looks back from its end should not be read from them."""
        return Signals(
            self._log[:count],
            trajectory=self.trajectory,
            findings=self._findings,
            role=self.role,
        )

    # --- for those who write rewards as classes -----------------------------------------------

    def note(self, share: str, names: Iterable[str]) -> None:
        """Note from which signals a share is made; `RewardBreakdown.evidence` says so."""
        self._scoring.evidence.setdefault(share, {}).update(dict.fromkeys(names))

    def note_step(self, step: StepShare) -> None:
        """Note what is due to one step; `RewardBreakdown.steps` says so, times what it counts."""
        if self._weight:
            self._scoring.steps.append(replace(step, value=self._weight * step.value))

    def weighted(self, factor: float) -> Signals:
        """The same signals, for a part of a reward that counts `factor` times."""
        other = self._with(self._log, self.role)
        other._weight = factor * self._weight
        return other

    def value_of(self, share: str, function: Callable[[Signals], Any]) -> float:
        """What a function gives, asked once for a run (and a role); what it reads is noted.

        Raises what it raises, and `UsageError` if it gives no number.
        """

        def asked() -> float:
            watched = self._with(self._log, self.role)
            watched._read = {}
            number = as_number(share, function(watched))
            self.note(share, watched._read)
            return number

        return self.once(function, asked, role=self.role)

    def once(self, owner: object, make: Callable[[], T], *, role: str = "") -> T:
        """What `make` gives, made once for a run (and a role) however often it is asked for.

        `owner` is the thing that asks: each has its own.
        """
        key = (id(owner), role)
        if key not in self._scoring.known:
            self._scoring.known[key] = owner, make()
        made: T = self._scoring.known[key][1]
        return made

    @property
    def opinions(self) -> set[str]:
        """The names of signals that a judge gave, and of judges who said what failed."""
        return {each.name for each in self._log if is_opinion(each.source)}.union(
            _judges(self._findings)
        )

    @property
    def read(self) -> tuple[str, ...]:
        """What has been read of these, by name, or noted as evidence of a share."""
        noted = (name for names in self._scoring.evidence.values() for name in names)
        return tuple(dict.fromkeys([*self._read, *noted]))

    def anew(self) -> Signals:
        """The same signals, of which nothing has been read yet."""
        fresh = self._with(self._log, self.role)
        fresh._read, fresh._scoring = {}, _Scoring()
        return fresh

    @property
    def evidence(self) -> dict[str, tuple[str, ...]]:
        """The signals behind each share, as noted since `anew`."""
        return {share: tuple(names) for share, names in self._scoring.evidence.items()}

    def take_steps(self) -> list[StepShare]:
        """The shares of steps that were noted since this was last asked."""
        taken, self._scoring.steps = self._scoring.steps, []
        return taken

    def _with(self, log: Iterable[Signal], role: str) -> Signals:
        other = Signals(log, trajectory=self.trajectory, findings=self._findings, role=role)
        other._read, other._scoring, other._weight = self._read, self._scoring, self._weight
        return other


def _judges(findings: Iterable[FailureFinding]) -> list[str]:
    return [each.source for each in findings if is_opinion(each.source)]


def as_number(name: str, given: Any) -> float:
    """What a function gave, awaited if need be. Raises `UsageError` if it is no number."""
    if inspect.isawaitable(given):
        # In a thread of its own: this one may have an event loop that is running.
        with ThreadPoolExecutor(1) as thread:
            given = thread.submit(asyncio.run, _awaited(given)).result()
    try:
        return float(given)
    except (TypeError, ValueError):
        raise UsageError(f"The reward `{name}` gave {given!r}, which is no number.") from None


async def _awaited(given: Awaitable[Any]) -> Any:
    return await given


class MissingSignal(UnknownName, KeyError):
    """A reward asked for a signal that the environment did not log."""

    __str__ = Exception.__str__
