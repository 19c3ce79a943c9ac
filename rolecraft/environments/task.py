"""Tasks: what a team is given, and an environment that is played once for one task.

    setup ──► run ──► grade ──► close

`grade` returns signals, what the environment measured; which of them make a reward is decided
elsewhere. A task environment is used once: state cannot leak into the next episode.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from rolecraft.environments import following
from rolecraft.environments.environment import Environment
from rolecraft.errors import ActionLimitReached, LimitReached, StepLimitReached, UsageError
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
        self._stage: Literal["new", "under way", "over"] = "new"
        self._reason: StopReason = "idle"
        self.measures: tuple[Callable[[TaskEnvironment], Awaitable[Iterable[Signal]]], ...] = ()
        """What is measured after `grade`, in the same place; a scenario's reward may want it."""
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

        A limit ends the play and is graded: one of the environment that was crossed, and a role
        that used up its steps or its actions. Anything else that is raised is recorded and
        comes out; `aclose` runs whatever happens. Raises `UsageError` the second time.
        """
        return await self._episode(None)

    async def recover(self, journal: str | Path) -> Trajectory:
        """Go on with an episode that was cut off or failed, to its signals and stop.

        The environment must be made for the same task, with the same roles, and not have been
        played. What is complete in the journal is not done and not asked again; the environment
        itself is set up again, so actions that change it need `repeat = "freely"`. An episode that
        was over is graded again, and must come to the same signals. Raises what `episode` and
        `Team.recover` raise.
        """
        return await self._episode(journal)

    async def _episode(self, journal: str | Path | None) -> Trajectory:
        self._check_new()
        try:
            await self.begin(journal)
            await self.act()
            return await self.measure()
        finally:
            await self.end()

    # --- the stages of an episode, one by one -------------------------------------------------

    async def begin(self, journal: str | Path | None = None) -> None:
        """The first stage: `setup`. With `journal`, what stands there is gone on with.

        Whoever calls the stages calls `end` whatever they raise. Each raises what `episode` does
        at its place, and has recorded it.
        """
        self._check_new()
        if journal is not None:
            await self._follow(journal)
        self._stage = "under way"
        try:
            await self.setup()
        except BaseException as error:
            self._failed(error)
            raise

    async def act(self) -> StopReason:
        """The second stage: the roles act, up to their end or a limit; why they stopped."""
        try:
            self._reason = await self._play_within_limits()
        except BaseException as error:
            self._failed(error)
            raise
        return self._reason

    async def measure(self) -> Trajectory:
        """The third stage: `grade`, and the end of the record; the whole trajectory."""
        try:
            turns = Signal("turns", float(self.turns), unit="turns")
            for signal in [*await self.grade(), turns]:
                self.record(signal_event(signal))
            for measure in self.measures:
                for signal in await measure(self):
                    self.record(signal_event(signal))
            self.stop(self._reason)
            self._stage = "over"
            return self.trajectory
        except BaseException as error:
            self._failed(error)
            raise

    async def end(self) -> None:
        """The last stage: `aclose`. An episode that was left between two stages was cancelled."""
        try:
            if self._stage == "under way":
                self._failed(asyncio.CancelledError())
        finally:
            await self.aclose()

    def _check_new(self) -> None:
        if self._stage != "new":
            raise UsageError(f"Task environment {self.id!r} was played; make a new one.")

    def _failed(self, error: BaseException) -> None:
        self._stage = "over"
        self.broke_off(error)

    async def _follow(self, journal: str | Path) -> None:
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

    async def _play_within_limits(self) -> StopReason:
        try:
            return await self.play()
        except (LimitReached, StepLimitReached, ActionLimitReached) as error:
            if not recording.has_note(error):
                self.record(recording.failure_event(error))
            return "limit"
