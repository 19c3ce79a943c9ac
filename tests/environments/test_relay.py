"""`relay`: only a planner and an executor who both do their part are right more than by chance."""

from __future__ import annotations

import pytest

from rolecraft import FunctionModel
from rolecraft.environments import Task
from rolecraft.environments.relay import RelayEnvironment, RelayTasks, relay_team
from rolecraft.models import ModelCall
from rolecraft.models.chance import UniformModel
from rolecraft.rollouts import collect, episodes
from rolecraft.scenarios.relay import relay


def perfect(call: ModelCall) -> str:
    words = call.messages[-1].content.split()
    if call.role == "planner":
        return words[1]
    return str((int(words[1]) + int(words[3])) % 5)


def wrong_register(call: ModelCall) -> str:
    if call.role == "planner":
        return "abcd"[("abcd".index(perfect(call)) + 1) % 4]
    return perfect(call)


TASK = Task(
    "one", "asked b", {"registers": {"a": 0, "b": 4, "c": 2, "d": 3}, "asked": "b", "offset": 3}
)


async def signals(answer: object) -> dict[str, float]:
    env = RelayEnvironment(TASK, relay_team(), model=FunctionModel(answer))  # type: ignore[arg-type]
    trajectory = await env.episode()
    assert trajectory.stop_reason == "finished"
    return {signal.name: signal.value for signal in trajectory.signals}


async def test_a_right_answer_is_measured_as_right_for_the_team_and_each_role() -> None:
    assert await signals(perfect) == {
        "relay.correct": 1.0,
        "relay.register": 1.0,
        "relay.sum": 1.0,
        "turns": 2.0,
    }


async def test_a_wrong_register_is_the_planners_failure_and_not_the_executors() -> None:
    measured = await signals(wrong_register)
    assert measured["relay.correct"] == measured["relay.register"] == 0.0
    assert measured["relay.sum"] == 1.0


async def test_guessing_succeeds_in_one_case_of_five() -> None:
    tasks = relay.tasks.sample(2000, seed=3)
    played = episodes(await collect(relay, tasks, model=UniformModel(), concurrency=500))
    mean = sum(episode.reward.value for episode in played) / len(played)
    assert mean == pytest.approx(0.2, abs=0.04)  # more than 4 standard deviations wide


async def test_an_executor_who_guesses_keeps_the_team_at_one_fifth() -> None:
    tasks = relay.tasks.sample(2000, seed=4)
    results = await collect(
        relay,
        tasks,
        model=FunctionModel(perfect, keep_calls=False),
        role_models={"executor": UniformModel()},
    )
    mean = sum(episode.reward.value for episode in episodes(results)) / len(tasks)
    assert mean == pytest.approx(0.2, abs=0.04)


async def test_a_planner_who_guesses_keeps_the_team_at_two_fifths() -> None:
    tasks = relay.tasks.sample(2000, seed=5)
    results = await collect(
        relay,
        tasks,
        model=FunctionModel(perfect, keep_calls=False),
        role_models={"planner": UniformModel()},
    )
    mean = sum(episode.reward.value for episode in episodes(results)) / len(tasks)
    assert mean == pytest.approx(0.40, abs=0.05)


def test_the_same_seed_draws_the_same_tasks_and_splits_do_not_overlap() -> None:
    source = RelayTasks()
    assert source.sample(50, seed=1) == source.sample(50, seed=1)
    assert source.sample(50, seed=1) != source.sample(50, seed=2)
    train = {task.id.removeprefix("relay-train-") for task in source.sample(4000, seed=1)}
    test = {task.id.removeprefix("relay-test-") for task in source.sample(4000, split="test")}
    assert not train & test


async def test_the_same_task_played_twice_gives_the_same_bytes() -> None:
    from rolecraft.trajectories.codec import encode_event

    async def play() -> list[bytes]:
        env = RelayEnvironment(TASK, relay_team(), model=UniformModel(), seed=11)
        return [encode_event(event) for event in (await env.episode()).events]

    assert await play() == await play()
