"""Every task that is put in comes out exactly once, in order, whatever single episodes do."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Role, Task, TaskEnvironment
from rolecraft.errors import UnknownName, UsageError
from rolecraft.rewards import turns
from rolecraft.rollouts import Failed, collect, episodes
from rolecraft.scenarios import Episode, Scenario
from rolecraft.scenarios.relay import relay
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


async def test_the_libraries_objects_are_set_aside_while_episodes_run_and_not_after(
    scenario: Scenario,
) -> None:
    during: list[int] = []
    await collect(
        scenario,
        scenario.tasks.sample(5),
        on_result=lambda result: during.append(gc.get_freeze_count()),
    )
    assert min(during) > 10_000  # most of what Python and the libraries hold
    assert gc.get_freeze_count() == 0


async def test_they_are_back_after_an_error_too(scenario: Scenario) -> None:
    def refuse(result: Any) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        await collect(scenario, scenario.tasks.sample(3), on_result=refuse)
    assert gc.get_freeze_count() == 0


async def test_a_model_given_as_text_is_made_once_off_the_event_loop_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rolecraft.models.transformers_model import TransformersModel

    untrained: Any = relay.untrained(0)  # type: ignore[misc]
    untrained.save(tmp_path)
    await untrained.aclose()
    loads: list[threading.Thread] = []
    closed: list[TransformersModel] = []
    load, aclose = TransformersModel.load, TransformersModel.aclose

    def note_load(*how: Any, **more: Any) -> TransformersModel:
        loads.append(threading.current_thread())
        return load(*how, **more)

    async def note_close(model: TransformersModel) -> None:
        closed.append(model)
        await aclose(model)

    monkeypatch.setattr(TransformersModel, "load", note_load)
    monkeypatch.setattr(TransformersModel, "aclose", note_close)
    spec = f"transformers:{tmp_path}"
    tasks = relay.tasks.sample(6)
    results = await collect(relay, tasks, model=spec, role_models={"planner": spec})
    assert len(episodes(results)) == 6
    assert len(loads) == 1
    assert loads[0] is not threading.main_thread()
    assert len(closed) == 1

    closed.clear()
    ours = load(tmp_path)
    await collect(relay, tasks, model=ours)
    assert closed == []  # whoever made it closes it
    await ours.aclose()


async def test_a_model_that_cannot_be_made_is_an_error_of_the_call(scenario: Scenario) -> None:
    with pytest.raises(UsageError, match="names no model"):
        await collect(scenario, scenario.tasks.sample(3), model="gpt")
