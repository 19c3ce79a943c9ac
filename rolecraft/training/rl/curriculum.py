"""A curriculum: the tasks from which most can be learnt now.

A group of attempts at a task says something only where some succeed and some fail; with success
probability p the variance of one attempt is p (1 - p), largest at one half. Each step draws tasks
with weights p (1 - p), as estimated so far, for each unit of cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rolecraft.environments.task import Task, TaskSource
from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64
from rolecraft.training.rl.playing import Attempt, seed_of


class Curriculum:
    """Chooses among the tasks of `source` by what earlier attempts at them came to.

    Of `pool` times as many tasks as a step wants, it draws those without repeating one. An attempt
    succeeds with a reward of at least `solved`. The estimate of p is that of a uniform prior,
    (successes + 1) / (attempts + 2), where each new attempt makes earlier ones count `memory` times
    as much, so that it follows a policy that learns. `floor` is the smallest weight, so that no
    task is lost for good. With `by_cost`, weights are divided by the mean sampled tokens of an
    attempt.
    """

    def __init__(
        self,
        source: TaskSource,
        *,
        pool: int = 4,
        solved: float = 1.0,
        memory: float = 0.9,
        floor: float = 0.02,
        by_cost: bool = False,
    ) -> None:
        if not (isinstance(pool, int) and pool >= 1):
            raise UsageError(f"`Curriculum(pool=...)` wants a whole number from 1, got {pool!r}.")
        for name, value in (("memory", memory), ("floor", floor)):
            if not 0 < value <= 1:
                raise UsageError(
                    f"`Curriculum({name}=...)` is above 0 and at most 1, got {value!r}."
                )
        self.source, self.pool, self.solved = source, pool, solved
        self.memory, self.floor, self.by_cost = memory, floor, by_cost
        self._seen: dict[str, list[float]] = {}
        """Of each task that was tried: attempts, successes and tokens, the old ones discounted."""

    def chance(self, task: str) -> float:
        """The estimated probability that an attempt at the task with this id succeeds."""
        tried, passed, _ = self._seen.get(task, (0.0, 0.0, 0.0))
        return (passed + 1) / (tried + 2)

    def weight(self, task: str) -> float:
        """How much the task is wanted, compared with others."""
        chance = self.chance(task)
        wanted = max(self.floor, chance * (1 - chance))
        return wanted / self._cost(task) if self.by_cost else wanted

    def choose(self, count: int, *, seed: int, step: int) -> list[Task]:
        """`count` tasks of the pool, or all of it; the weighted draw without replacement of
        Efraimidis and Spirakis (2006): the largest u ** (1 / weight)."""
        drawn = self.source.sample(self.pool * count, seed=seed_of(seed, step), split="train")
        tasks = {task.id: task for task in reversed(drawn)}

        def key(name: str) -> float:
            uniform = (hash64("curriculum", seed, step, name) + 1) / 2**64
            return math.log(uniform) / self.weight(name)

        return [tasks[name] for name in sorted(tasks, key=key, reverse=True)[:count]]

    def learn(self, rollouts: Sequence[Attempt]) -> None:
        for rollout in rollouts:
            if rollout.episode is None or rollout.reward is None:
                continue
            passed = float(rollout.reward >= self.solved)
            tokens = float(rollout.episode.trajectory.usage.completion_tokens)
            before = self._seen.get(rollout.item.id, [0.0, 0.0, 0.0])
            new = (1.0, passed, tokens)
            self._seen[rollout.item.id] = [
                self.memory * old + each for old, each in zip(before, new, strict=True)
            ]

    def state(self) -> dict[str, Any]:
        return {"seen": {name: list(each) for name, each in self._seen.items()}}

    def load_state(self, state: dict[str, Any]) -> None:
        self._seen = {name: list(each) for name, each in state["seen"].items()}

    def _cost(self, task: str) -> float:
        """Mean tokens of an attempt; of a task that was never tried, those of all."""
        tried, _, tokens = self._seen.get(task, (0.0, 0.0, 0.0))
        if not tried:
            tried = sum(each[0] for each in self._seen.values())
            tokens = sum(each[2] for each in self._seen.values())
        return max(1.0, tokens / tried) if tried else 1.0
