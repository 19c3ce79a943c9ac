"""Signals as a reward function sees them: by name, with nothing else of the run in reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rolecraft.errors import UnknownName
from rolecraft.trajectories.events import Signal


class Signals(Mapping[str, float]):
    """What was measured in one run. `signals["tests.failed"]` is the latest value of that name.

    Raises `UnknownName` for a signal that was not logged: a reward never guesses a measurement.
    """

    __slots__ = ("_latest", "log")

    def __init__(self, log: Iterable[Signal]) -> None:
        self.log = tuple(log)
        """Every signal, in the order in which it was logged."""
        self._latest = {signal.name: signal.value for signal in self.log}

    def __getitem__(self, name: str) -> float:
        try:
            return self._latest[name]
        except KeyError:
            raise MissingSignal("Signal", name, self._latest) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._latest)

    def __len__(self) -> int:
        return len(self._latest)

    def __repr__(self) -> str:
        return f"Signals({self._latest})"

    def all(self, name: str) -> list[float]:
        """Every value of this name, in order; empty if it was never logged."""
        return [signal.value for signal in self.log if signal.name == name]

    def of(self, role: str) -> Signals:
        """The signals that were measured of one role."""
        return Signals(signal for signal in self.log if signal.role == role)


class MissingSignal(UnknownName, KeyError):
    """A reward asked for a signal that the environment did not log."""

    __str__ = Exception.__str__
