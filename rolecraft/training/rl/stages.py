"""Which tasks a step trains on: those of a source, or of several one after the other.

Invariant: the same seed and step give the same tasks, whatever was chosen before; a curriculum's
choice (`curriculum.py`) also depends on what it has learnt, which is in the checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from rolecraft.environments.task import Split, Task, TaskSource
from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64
from rolecraft.training.rl.playing import Attempt, seed_of


@runtime_checkable
class Chooser(Protocol):
    """Chooses the tasks of each step."""

    def choose(self, count: int, *, seed: int, step: int) -> list[Task]:
        """At most `count` tasks for `step` (from 0), at least one."""
        ...

    def learn(self, rollouts: Sequence[Attempt]) -> None:
        """Hear of the attempts that a step was trained on."""
        ...

    def state(self) -> dict[str, Any]:
        """What was learnt, as JSON has it."""
        ...

    def load_state(self, state: dict[str, Any]) -> None: ...


class Plain:
    """The tasks that a source draws for the step."""

    def __init__(self, source: TaskSource) -> None:
        self.source = source

    def choose(self, count: int, *, seed: int, step: int) -> list[Task]:
        return self.source.sample(count, seed=seed_of(seed, step), split="train")

    def learn(self, rollouts: Sequence[Attempt]) -> None:
        """Nothing."""

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`steps` steps on the tasks of `tasks`; None: as many as there are left."""

    tasks: TaskSource | Chooser
    steps: int | None = None


class Stages:
    """Several data stages, one after the other: easy tasks first, say.

    Each hears of its own steps only. Raises `UsageError` for stages that are never reached.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        if not stages:
            raise UsageError("`Stages([])`: name at least one stage.")
        for number, stage in enumerate(stages):
            last = number == len(stages) - 1
            if stage.steps is None and not last:
                raise UsageError(
                    f"Stage {number + 1} of {len(stages)} has no end, so the next is never "
                    f"reached: give it `steps`."
                )
            if stage.steps is not None and stage.steps < 1:
                raise UsageError(f"`Stage(steps={stage.steps!r})` wants a whole number from 1.")
        self.stages = list(stages)
        self._choosers = [chooser(stage.tasks) for stage in stages]
        self._now = 0

    def number(self, step: int) -> int:
        """Which stage a step belongs to, from 0; the last one goes on for ever."""
        end = 0
        for number, stage in enumerate(self.stages):
            end += stage.steps or 0
            if stage.steps is None or step < end:
                return number
        return len(self.stages) - 1

    def choose(self, count: int, *, seed: int, step: int) -> list[Task]:
        self._now = self.number(step)
        return self._choosers[self._now].choose(count, seed=seed, step=step)

    def learn(self, rollouts: Sequence[Attempt]) -> None:
        self._choosers[self._now].learn(rollouts)

    def state(self) -> dict[str, Any]:
        return {"stages": [each.state() for each in self._choosers], "now": self._now}

    def load_state(self, state: dict[str, Any]) -> None:
        self._now = state["now"]
        for each, its_state in zip(self._choosers, state["stages"], strict=True):
            each.load_state(its_state)


def chooser(tasks: TaskSource | Chooser) -> Chooser:
    """What chooses among `tasks`: itself, or `Plain` of a source."""
    if isinstance(tasks, Chooser):
        return tasks
    return Plain(tasks)


class OnlyTasks:
    """A task source with some tasks of another: those whose ids are `ids`.

    They are looked for in what `source` draws for the seeds 0 to 15, so the source must come back
    to them. Raises `UsageError` where one is not found.
    """

    def __init__(self, source: TaskSource, ids: Iterable[str], *, split: Split = "train") -> None:
        wanted = dict.fromkeys(ids)
        if not wanted:
            raise UsageError("There is no task in this subset: widen its bounds.")
        found: dict[str, Task] = {}
        for seed in range(16):
            for task in source.sample(max(256, 4 * len(wanted)), seed=seed, split=split):
                if task.id in wanted:
                    found.setdefault(task.id, task)
            if len(found) == len(wanted):
                break
        missing = [name for name in wanted if name not in found]
        if missing:
            raise UsageError(
                f"{len(missing)} of {len(wanted)} tasks are none that the source draws for "
                f"`{split}`, such as {missing[0]!r}. Take the subset from runs on the same tasks "
                f"and the same split."
            )
        self.tasks, self.split = [found[name] for name in wanted], split

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        """Drawn without repeating one before all were drawn. Raises `UsageError` for a split that
        they are not of."""
        if split != self.split:
            raise UsageError(f"These tasks are of the split {self.split!r}, not {split!r}.")
        order = sorted(self.tasks, key=lambda task: hash64("subset", seed, task.id))
        return [order[number % len(order)] for number in range(count)]
