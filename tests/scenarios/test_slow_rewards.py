"""A reward function that blocks holds up its own episode and nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from rolecraft import ScriptedModel
from rolecraft.environments.relay import RelayEnvironment, RelayTasks, relay_team
from rolecraft.rewards import Signals, reward
from rolecraft.scenarios.scenario import Scenario

STRETCH = 0.02
"""Seconds by which the event loop may be late, see issue 6's ticker test."""


async def test_a_reward_that_takes_a_second_delays_no_other_task_by_more_than_20_ms(
    longest_wait: Callable[..., Awaitable[float]],
) -> None:
    """By no more, that is, than the machine does anyway."""
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
    for _ in range(5):
        over = asyncio.Event()
        waits = asyncio.ensure_future(longest_wait(over))
        await asyncio.sleep(0.01)
        episode = await scenario.play(task, model=ScriptedModel(["a", "1"]))
        over.set()
        worst.append(await waits)
        assert threading.main_thread() not in where
        assert set(episode.reward.shares) == {"slow"}
        if worst[-1] < STRETCH or worst[-1] < min(0.5, 5 * await longest_wait()):
            return
    pytest.fail(f"Another task was kept waiting by {worst} seconds.")
