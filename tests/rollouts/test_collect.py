"""Every task that is put in comes out exactly once, in order, whatever single episodes do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rolecraft import Action, Role, Task, TaskEnvironment
from rolecraft.errors import UnknownName
from rolecraft.rewards import turns
from rolecraft.rollouts import Failed, collect, episodes
from rolecraft.scenarios import Episode, Scenario
from rolecraft.trajectories import Signal


class Work(Action):
    async def run(self, history: Any) -> str:
        env = self.role.rc.env
        env.alive.add(env.id)
        env.peak.append(len(env.alive))
        for _ in range(env.task.data["yields"]):
            await asyncio.sleep(0)
        if env.task.data["fails"]:
            raise ValueError(f"no luck with {env.id}")
        return "done"


class Worker(Role):
    actions = (Work,)


class Place(TaskEnvironment):
    alive: set[str]
    peak: list[int]

    async def grade(self) -> list[Signal]:
        return [Signal("done", 1.0)]

    async def aclose(self) -> None:
        self.alive.discard(self.id)
        await super().aclose()


class Tasks:
    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        return [
            Task(f"t{n}", "go", {"yields": (n * 7) % 5, "fails": n % 10 == 3}) for n in range(count)
        ]


@pytest.fixture
def scenario(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    monkeypatch.setattr(Place, "alive", set(), raising=False)
    monkeypatch.setattr(Place, "peak", [], raising=False)
    return Scenario(
        name="work", team=lambda: [Worker()], environment=Place, tasks=Tasks(), reward=turns
    )


async def test_one_result_a_task_in_the_order_of_the_tasks(scenario: Scenario) -> None:
    tasks = scenario.tasks.sample(60)
    heard: list[str] = []
    results = await collect(
        scenario, tasks, concurrency=7, on_result=lambda result: heard.append(result.task.id)
    )
    assert [result.task.id for result in results] == [task.id for task in tasks]
    assert sorted(heard) == sorted(task.id for task in tasks)


async def test_an_episode_that_raises_costs_itself_only(scenario: Scenario) -> None:
    results = await collect(scenario, scenario.tasks.sample(60))
    failed = [result for result in results if isinstance(result, Failed)]
    assert [result.task.id for result in failed] == ["t3", "t13", "t23", "t33", "t43", "t53"]
    assert all(isinstance(result.error, ValueError) for result in failed)
    assert sum(isinstance(result, Episode) for result in results) == 54


async def test_environments_are_closed_whatever_happens(scenario: Scenario) -> None:
    await collect(scenario, scenario.tasks.sample(60))
    assert Place.alive == set()


async def test_no_more_episodes_than_allowed_are_alive(scenario: Scenario) -> None:
    await collect(scenario, scenario.tasks.sample(60), concurrency=5)
    assert 2 <= max(Place.peak) <= 5


async def test_episodes_raises_the_first_failure_as_it_was_with_the_task_named(
    scenario: Scenario,
) -> None:
    results = await collect(scenario, scenario.tasks.sample(10))
    with pytest.raises(ValueError, match="no luck with t3") as caught:
        episodes(results)
    assert "in the episode of task 't3'" in caught.value.__notes__


async def test_an_unknown_role_in_role_models_names_the_roles(scenario: Scenario) -> None:
    with pytest.raises(UnknownName, match=r"'writer' is not known.*`Worker`"):
        await scenario.play(scenario.tasks.sample(1)[0], role_models={"writer": "openai/x"})
