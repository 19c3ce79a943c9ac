"""Rewards whose signal is measured after the run and logged, so that they are functions of the log.

A check looks into the sandbox that the roles worked in; a judge reads what they did. Both happen
once, when the run is over and before its place is closed. What came of it stands in the record like
every other signal, and a stored run is scored from it without asking again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rolecraft.rewards.reward import Reward
from rolecraft.rewards.signals import is_opinion
from rolecraft.trajectories.events import Signal
from rolecraft.trajectories.trajectory import Trajectory, signal_of

if TYPE_CHECKING:
    from rolecraft.environments.task import Task, TaskEnvironment
    from rolecraft.sandboxes.live import LiveSandbox


@dataclass(frozen=True, slots=True)
class Played:
    """A run that is over, and where it took place, as far as that is still there."""

    run: Trajectory
    sandbox: LiveSandbox | None = None
    task: Task | None = None


class Measured(Reward):
    """A reward that reads one signal, which it measures itself. Write `measure`."""

    afterwards: ClassVar[bool] = False
    """Whether the record alone is enough to measure it, however long ago the run was."""

    @property
    @abstractmethod
    def signal(self) -> str:
        """The name of the signal."""

    @abstractmethod
    async def measure(self, played: Played) -> Signal | None:
        """The signal; None for what turned out to be unknown. Raises what keeps it from looking."""


def measured_in(reward: Reward) -> list[Measured]:
    """What a reward has measured, each signal once."""
    found = (part for part in reward.tree() if isinstance(part, Measured))
    return list({part.signal: part for part in found}.values())


def measures_of(
    reward: Reward,
) -> tuple[Callable[[TaskEnvironment], Awaitable[list[Signal]]], ...]:
    """What an environment is to measure after grading, for this reward: see `TaskEnvironment`."""
    wanted = measured_in(reward)
    if not wanted:
        return ()

    async def measure(environment: TaskEnvironment) -> list[Signal]:
        sandbox = getattr(environment, "sandbox", None)
        lives = all(hasattr(sandbox, each) for each in ("spec", "folder", "read"))
        played = Played(environment.trajectory, sandbox if lives else None, environment.task)
        known = environment.past.known if environment.past is not None else ()
        recorded = [signal_of(event) for event in known if event.kind == "signal"]
        return await _signals(wanted, played, recorded)

    return (measure,)


async def ask_judges(reward: Reward, run: Trajectory) -> list[Signal]:
    """The opinions that a stored run lacks and this reward wants.

    Nothing is added to the run: `run.reported.extend(...)`, or `append_signals(journal, ...)`.
    Checks are not made, for their sandbox is gone. Raises what a model raises that is set up
    wrongly.
    """
    has = {each.name for each in run.signals}
    wanted = [each for each in measured_in(reward) if each.signal not in has]
    return await _signals([each for each in wanted if each.afterwards], Played(run), ())


async def _signals(
    wanted: Iterable[Measured], played: Played, recorded: Iterable[Signal]
) -> list[Signal]:
    """What is measured one after the other; an opinion that the record has counts as it was."""
    opinions = {each.name: each for each in recorded if is_opinion(each.source)}
    signals = []
    for each in wanted:
        signal = opinions.get(each.signal) or await each.measure(played)
        if signal is not None:
            signals.append(signal)
    return signals
