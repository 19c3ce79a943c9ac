"""`train`: what it plays, how it scores, what it records and refuses."""

from __future__ import annotations

import gc
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft import ScriptedModel
from rolecraft.environments import Task
from rolecraft.environments.relay import RelayEnvironment
from rolecraft.errors import RolecraftError, UnknownName, UsageError
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.rewards import Signals, reward
from rolecraft.rollouts import collect, episodes
from rolecraft.scenarios import Scenario
from rolecraft.scenarios.relay import relay
from rolecraft.training import (
    Algorithm,
    StepRecord,
    TaskRecord,
    TrainingRun,
    train,
)

torch.set_num_threads(1)

QUICK = Algorithm(group=4, learning_rate=1e-3, epochs=2, entropy=0.01)


async def quick(scenario: Scenario = relay, **how: Any) -> Any:
    how.setdefault("algorithm", QUICK)
    how.setdefault("steps", 2)
    how.setdefault("tasks_per_step", 4)
    return await train(scenario, **how)


async def test_a_run_records_every_step() -> None:
    heard: list[StepRecord] = []
    run = await quick(on_step=heard.append)
    assert run.records == heard
    assert [record.step for record in heard] == [0, 1]
    for record in heard:
        assert record.episodes == 16
        assert record.failed == 0
        assert record.actions == 32  # one choice of each role an episode; forced tokens are none
        assert 0.0 <= record.reward <= 1.0
        assert set(record.roles) == {"planner", "executor"}
        assert {"relay.register", "relay.sum", "relay.correct"} <= set(record.signals)
        assert record.signals["relay.correct"] == record.reward
        assert record.gap < 1e-5
    assert heard[0].entropy > heard[0].kl > 0.0
    assert 0 < heard[0].cpu_seconds < heard[1].cpu_seconds <= run.cpu_seconds
    assert run.model.version == 2


async def test_the_same_arguments_give_the_same_weights_and_other_seeds_others() -> None:
    def weights(model: TransformersModel) -> torch.Tensor:
        return torch.cat([weight.detach().flatten() for weight in model.module.parameters()])

    one, two, other = [await quick(seed=seed) for seed in (5, 5, 6)]
    assert torch.equal(weights(one.model), weights(two.model))
    assert [r.without_times() for r in one.records] == [r.without_times() for r in two.records]
    assert not torch.equal(weights(one.model), weights(other.model))


async def test_every_attempt_has_a_seed_of_its_own_and_every_step_tasks_of_its_own() -> None:
    played: list[Any] = []

    class Spy(RelayEnvironment):
        async def setup(self) -> None:
            played.append(self.task)

    await quick(replace(relay, environment=Spy))
    assert len({task.seed for task in played}) == 32
    for step in (played[:16], played[16:]):
        assert set(Counter(task.id for task in step).values()) <= {4, 8, 12, 16}
    assert {task.id for task in played[:16]} != {task.id for task in played[16:]}


async def test_frozen_roles_choose_uniformly_and_are_not_trained() -> None:
    run = await quick(frozen=["planner"])
    assert run.records[0].actions == 16
    assert run.records[0].gap < 1e-5


async def test_training_stops_once_the_reward_is_reached() -> None:
    assert len((await quick(steps=14, until=0.0)).records) == 10  # the mean of ten steps
    assert len((await quick(steps=3, until=0.0)).records) == 3


async def test_a_saved_run_can_be_loaded_and_read(tmp_path: Path) -> None:
    run = await quick()
    assert run.save(tmp_path / "run") == tmp_path / "run"
    lines = (tmp_path / "run" / "training.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1]
    loaded = TransformersModel.load(tmp_path / "run", seed=run.model.seed)
    tasks = relay.tasks.sample(8, split="test")
    ours, theirs = [
        [e.reward.value for e in episodes(await collect(relay, tasks, model=model))]
        for model in (run.model, loaded)
    ]
    assert ours == theirs


async def test_tasks_are_told_once_before_they_are_played_and_saved_with_the_run(
    tmp_path: Path,
) -> None:
    told: list[TaskRecord] = []
    steps: list[int] = []

    def on_tasks(tasks: Sequence[TaskRecord]) -> None:
        told.extend(tasks)
        steps.append(len(told))

    few = relay.tasks.sample(6, seed=1)

    class Few:
        def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
            assert len(steps) == seen_steps
            return [few[(len(steps) * 2 + n) % 6] for n in range(count)]

    seen_steps = 0

    def on_step(record: StepRecord) -> None:
        nonlocal seen_steps
        seen_steps = record.step + 1
        assert len(steps) == seen_steps

    run = await quick(replace(relay, tasks=Few()), steps=3, on_tasks=on_tasks, on_step=on_step)
    assert steps == [4, 6, 6]
    assert [task.id for task in told] == [task.id for task in few]
    assert run.tasks == told
    run.save(tmp_path)
    lines = (tmp_path / "tasks.jsonl").read_text("utf-8").splitlines()
    assert [TaskRecord(**json.loads(line)) for line in lines] == told


async def test_no_steps_are_a_run_without_records() -> None:
    run = await quick(steps=0)
    assert run.records == []
    assert math.isnan(run.mean_reward())


def failing(when: Callable[[Any], bool]) -> Scenario:
    class Failing(RelayEnvironment):
        async def setup(self) -> None:
            if when(self.task):
                raise OSError("the disk is full")

    return replace(relay, environment=Failing)


async def test_episodes_that_raise_are_counted_and_cost_nothing_else() -> None:
    run = await quick(failing(lambda task: task.seed % 2 == 0), refills=0)
    for record in run.records:
        assert record.failed + record.episodes == 16
        assert 0 < record.failed < 16
        assert record.actions == 2 * record.episodes


async def test_when_all_episodes_raise_so_does_training() -> None:
    with pytest.raises(OSError, match="disk is full") as raised:
        await quick(failing(lambda task: True))
    assert any("all 16 episodes" in note for note in raised.value.__notes__)


@reward
def sometimes_nan(signals: Signals) -> float:
    return math.nan if signals["relay.correct"] else 0.0


async def test_rewards_that_are_not_finite_are_left_out_by_name() -> None:
    records: list[StepRecord] = []
    scenario = replace(relay, reward=sometimes_nan)
    run = await quick(scenario, steps=2, on_step=records.append)
    for record in records:
        assert record.skipped
        assert all("relay-train-" in name for name in record.skipped)
        assert record.unscored == record.signals["relay.correct"] * record.episodes > 0
        assert record.reward == 0.0  # of the others
    assert run.mean_reward() == 0.0


@reward
def always_nan(signals: Signals) -> float:
    return math.nan


async def test_a_step_without_any_reward_is_an_error_that_names_the_scenario() -> None:
    with pytest.raises(UsageError, match=r"of 16 episodes.*`relay`"):
        await quick(replace(relay, reward=always_nan))


def test_numbers_that_are_not_finite_are_null_in_the_file(tmp_path: Path) -> None:
    record = StepRecord(step=0, reward=math.nan, roles={"r": 1.0}, grad_norm=math.inf)
    model: Any = relay.untrained(0)  # type: ignore[misc]
    TrainingRun(model, [record, replace(record, reward=0.5)], 0.0).save(tmp_path)
    lines = (tmp_path / "training.jsonl").read_text("utf-8").splitlines()
    strict = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [line["reward"] for line in strict] == [None, 0.5]
    assert strict[0]["grad_norm"] is None
    assert strict[0]["roles"] == {"r": 1.0}


async def test_steps_say_which_version_played() -> None:
    model: Any = relay.untrained(0)  # type: ignore[misc]
    model.version = 7
    run = await quick(model=model)
    assert [(record.step, record.version) for record in run.records] == [(0, 7), (1, 8)]


async def test_the_garbage_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    await quick(steps=1)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.disable()
    try:
        await quick(steps=1)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"frozen": ["pilot"]}, UnknownName, "pilot"),
        ({"frozen": "planner"}, UsageError, "list of role names"),
        ({"frozen": ["planner", "executor"]}, UsageError, "nothing is left to train"),
        ({"model": ScriptedModel()}, UsageError, "TransformersModel"),
        ({"scenario": replace(relay, untrained=None)}, UsageError, "no untrained model"),
        ({"steps": -1}, UsageError, "steps"),
        ({"tasks_per_step": 0}, UsageError, "tasks_per_step"),
    ],
)
async def test_arguments_that_cannot_be_meant_are_refused_before_anything_is_played(
    wrong: dict[str, Any], error: type[RolecraftError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await quick(**wrong)
