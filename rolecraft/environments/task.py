"""Tasks: what a team is given, and an environment that is played once for one task.

    setup ──► run ──► grade ──► close

`grade` returns signals, what the environment measured; which of them make a reward is decided
elsewhere. A task environment is used once: state cannot leak into the next episode.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from rolecraft.environments import following
from rolecraft.environments.environment import Environment
from rolecraft.errors import LimitReached, UsageError
from rolecraft.messages import Message
from rolecraft.roles import recording
from rolecraft.roles.role import Role
from rolecraft.trajectories.events import Signal, StopReason
from rolecraft.trajectories.past import PastRun
from rolecraft.trajectories.recovery import take_back
from rolecraft.trajectories.trajectory import Trajectory, signal_event


@dataclass(frozen=True, slots=True)
class Task:
    """One task. `data` is what the environment needs and the roles do not see."""

    id: str
    prompt: str
    data: dict[str, Any] = field(default_factory=dict)
    seed: int = 0


Split = Literal["train", "test"]


class TaskSource(Protocol):
    """Where tasks come from. The same arguments give the same tasks; splits do not overlap."""

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]: ...


class TaskEnvironment(Environment, ABC):
    """An environment for one task."""

    def __init__(self, task: Task, roles: Iterable[Role] = (), **options: Any) -> None:
        options.setdefault("id", task.id)
        options.setdefault("seed", task.seed)
        super().__init__(roles, **options)
        self.task = task
        self._played = False
        self.about.setdefault("task", {"id": task.id, "prompt": task.prompt})

    async def setup(self) -> None:
        """Prepare what the roles act on."""

    async def play(self) -> StopReason:
        """Give the roles the task and let them act; overridable."""
        self.publish_message(Message(self.task.prompt))
        return await self.run()

    @abstractmethod
    async def grade(self) -> list[Signal]:
        """Measure what came of it. Runs after `play`, also when a limit ended it."""

    async def aclose(self) -> None:
        """Release what `setup` took."""
        self.close()

    async def episode(self) -> Trajectory:
        """Play the task from `setup` to `aclose`; the trajectory, with signals and stop.

        A crossed limit ends the play and is graded. Anything else that is raised is recorded and
        comes out; `aclose` runs whatever happens. Raises `UsageError` the second time.
        """
        if self._played:
            raise UsageError(f"Task environment {self.id!r} was played; make a new one.")
        self._played = True
        try:
            await self.setup()
            reason = await self._play_within_limits()
            turns = Signal("turns", float(self.turns), unit="turns")
            for signal in [*await self.grade(), turns]:
                self.record(signal_event(signal))
            self.stop(reason)
            return self.trajectory
        except BaseException as error:
            self.broke_off(error)
            raise
        finally:
            await self.aclose()

    async def recover(self, journal: str | Path) -> Trajectory:
        """Go on with an episode that was cut off or failed, to its signals and stop.

        The environment must be made for the same task, with the same roles, and not have been
        played. What is complete in the journal is not done and not asked again; the environment
        itself is set up again, so actions that change it need `repeat = "freely"`. An episode that
        was over is graded again, and must come to the same signals. Raises what `episode` and
        `Team.recover` raise.
        """
        kept = await asyncio.to_thread(
            take_back,
            journal,
            lambda kept: following.check(self, kept.about, kept.known),
            fsync=self.fsync,
        )
        past = PastRun(kept.known, kept.pending)
        following.follow(
            self, kept.trajectory, kept.about, past, journal=Path(journal), in_sinks=True
        )
        self.resumes = following.resume_event(kept, self.approved)
        return await self.episode()

    async def _play_within_limits(self) -> StopReason:
        try:
            return await self.play()
        except LimitReached as error:
            if not recording.has_note(error):
                self.record(recording.failure_event(error))
            return "limit"
