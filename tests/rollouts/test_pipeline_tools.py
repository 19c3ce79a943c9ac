"""Synchronous tools and rewards run in threads, of which there are so many and no more."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from typing import Any

from rolecraft import FunctionModel, Role, Task, TaskEnvironment, tool
from rolecraft.actions._threads import context_with, in_thread
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, ModelCall
from rolecraft.rewards import Signals, reward, turns
from rolecraft.rollouts import PipelineSettings, ScenarioStages, rollouts
from rolecraft.scenarios import Scenario
from rolecraft.trajectories import Signal

CALLS = 64


class Place(TaskEnvironment):
    async def grade(self) -> list[Signal]:
        return [Signal("good", 1.0)]


class Tasks:
    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        return [Task(f"t{n}", "go") for n in range(count)]


def asks_for_all(call: ModelCall) -> Completion | str:
    if call.messages[-1].role == "tool":
        return "done"
    calls = [ToolCall("meet", {"number": n}, f"c{n}") for n in range(CALLS)]
    return Completion(text="", tool_calls=calls)


async def played(meet: Any, **settings: Any) -> Any:
    scenario = Scenario(
        name="meeting",
        team=lambda: [Role(name="Ann", tools=[meet])],
        environment=Place,
        tasks=Tasks(),
        reward=turns,
    )
    stages = ScenarioStages(scenario, model=FunctionModel(asks_for_all))
    how = PipelineSettings(attempts=1, **settings)
    async with aclosing(rollouts(stages, Tasks().sample(1), how)) as done:
        (rollout,) = [each async for each in done]
    return rollout


async def test_all_independent_calls_of_one_turn_run_at_the_same_time() -> None:
    """64 calls that each wait for the other 63 come to their end."""
    barrier = threading.Barrier(CALLS)

    @tool(parallel=True)
    def meet(number: int) -> int:
        """Wait for everybody."""
        barrier.wait(timeout=60)
        return number

    rollout = await played(meet)
    assert rollout.ended == "finished"
    results = [*rollout.trajectory.of("tool_result")]
    assert [event.content for event in results] == [str(n) for n in range(CALLS)]


async def test_no_more_calls_have_a_thread_than_tool_workers() -> None:
    now, most, lock = 0, 0, threading.Lock()

    @tool(parallel=True)
    def meet(number: int) -> int:
        """Count who is here."""
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.002)
        with lock:
            now -= 1
        return number

    rollout = await played(meet, tool_workers=5)
    assert rollout.ended == "finished"
    assert 1 <= most <= 5


async def test_r3_tools_of_roles_and_rewards_share_one_number_of_threads() -> None:
    """With a single one, a reward waits until the tool of another episode has ended."""
    log: list[str] = []
    began, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool
    def block() -> str:
        """Hold the thread for a while."""
        log.append("tool begins")
        loop.call_soon_threadsafe(began.set)
        loop.call_soon_threadsafe(loop.call_later, 0.1, released.set)
        assert released.wait(timeout=60)
        log.append("tool ends")
        return "done"

    @reward
    def noted(signals: Signals) -> float:
        log.append("reward")
        return 1.0

    async def answer(call: ModelCall) -> Completion | str:
        if call.messages[-1].content.endswith("block") and call.messages[-1].role != "tool":
            return Completion(text="", tool_calls=[ToolCall("block", {}, "c")])
        await began.wait()
        return "done"

    scenario = Scenario(
        name="sharing",
        team=lambda: [Role(name="Ann", tools=[block])],
        environment=Place,
        tasks=Tasks(),
        reward=noted,
    )
    stages = ScenarioStages(scenario, model=FunctionModel(answer))
    tasks = [Task("t0", "block"), Task("t1", "go")]
    settings = PipelineSettings(attempts=1, tool_workers=1)
    async with aclosing(rollouts(stages, tasks, settings)) as done:
        assert [each.reward async for each in done] == [1.0, 1.0]
    assert log == ["tool begins", "tool ends", "reward", "reward"]


async def test_the_loop_goes_on_while_a_tool_blocks() -> None:
    released = threading.Event()

    @tool
    def meet(number: int) -> int:
        """Block until the event loop says so."""
        assert released.wait(timeout=60)
        return number

    release = asyncio.get_running_loop().call_later(0.02, released.set)
    rollout = await played(meet)
    release.cancel()
    assert rollout.ended == "finished"


async def test_a_thread_that_hangs_keeps_nobody_else_from_one() -> None:
    over, began = threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        over.wait(timeout=60)

    context, loop = context_with(1), asyncio.get_running_loop()
    hung = loop.create_task(in_thread(hang), context=context)
    try:
        await asyncio.to_thread(began.wait, 60)
        waiting = loop.create_task(in_thread(threading.get_ident), context=context)
        await asyncio.sleep(0)
        assert not waiting.done(), "there is one thread, and it is taken"
        hung.cancel()
        assert await asyncio.wait_for(waiting, 60)
    finally:
        over.set()
    assert hung.cancelled()
    for _ in range(3):  # the place was given back once, not twice
        assert await loop.create_task(in_thread(threading.get_ident), context=context)
