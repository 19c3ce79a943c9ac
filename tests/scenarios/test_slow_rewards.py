"""A reward function that blocks holds up its own episode and nothing else."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rolecraft import ScriptedModel
from rolecraft.environments.relay import RelayEnvironment, RelayTasks, relay_team
from rolecraft.rewards import Signals, reward
from rolecraft.scenarios.scenario import Scenario

STRETCH = 0.02
"""Seconds by which the event loop may be late, see issue 6's ticker test."""


async def longest_wait(over: asyncio.Event) -> float:
    """By how much a task that wakes every 2 ms was late, at the worst, until `over`."""
    worst = 0.0
    while not over.is_set():
        began = time.perf_counter()
        await asyncio.sleep(0.002)
        worst = max(worst, time.perf_counter() - began - 0.002)
    return worst


async def test_a_reward_that_takes_a_second_delays_no_other_task_by_more_than_20_ms() -> None:
    where: list[threading.Thread] = []

    @reward
    def slow(signals: Signals) -> float:
        where.append(threading.current_thread())
        time.sleep(1.0)
        return signals["relay.correct"]

    scenario = Scenario(
        name="slow",
        team=relay_team,
        environment=RelayEnvironment,
        tasks=RelayTasks(),
        reward=slow,
    )
    (task,) = RelayTasks().sample(1)
    worst: list[float] = []
    for _ in range(3):  # on a busy machine one of three tries must be quiet
        over = asyncio.Event()
        waits = asyncio.create_task(longest_wait(over))
        await asyncio.sleep(0.01)
        episode = await scenario.play(task, model=ScriptedModel(["a", "1"]))
        over.set()
        worst.append(await waits)
        assert threading.main_thread() not in where
        assert set(episode.reward.shares) == {"slow"}
        if worst[-1] < STRETCH:
            return
    pytest.fail(f"Another task was kept waiting by {worst} seconds.")
