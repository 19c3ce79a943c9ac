"""Training while episodes go on: the bound of staleness, refilling, and exact replay."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.environments.relay import RelayEnvironment
from rolecraft.errors import ModelError, UsageError
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.scenarios import Scenario
from rolecraft.scenarios.relay import relay
from rolecraft.training import Algorithm, StepRecord, TrainingRun, train
from rolecraft.training.rl.learner import CopiedWeights
from rolecraft.training.rl.playing import Played, Player
from rolecraft.training.rl.schedule import SCHEDULE
from rolecraft.training.rl.stages import Plain
from rolecraft.training.rl.stream import Stream, versions_of

torch.set_num_threads(1)

QUICK = Algorithm(group=4, learning_rate=1e-3, epochs=2, entropy=0.01)


async def quick(scenario: Scenario = relay, **how: Any) -> TrainingRun:
    how.setdefault("algorithm", QUICK)
    how.setdefault("steps", 6)
    how.setdefault("asynchronous", True)
    how.setdefault("model", relay.untrained(3))  # type: ignore[misc]
    return await train(scenario, tasks_per_step=3, **how)


def weights(run: TrainingRun) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in run.model.module.parameters()])


def slow(seconds: Callable[[int], float]) -> Scenario:
    """Relay, where an episode waits before its first turn by its seed."""

    class Slow(RelayEnvironment):
        async def play(self) -> Any:
            await asyncio.sleep(seconds(self.task.seed))
            return await super().play()

    return replace(relay, environment=Slow)


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_no_step_learns_from_anything_staler_than_allowed(most: int) -> None:
    run = await quick(slow(lambda seed: (seed % 7) * 0.02), max_staleness=most, steps=8)
    assert [record.version for record in run.records] == [*range(8)]
    for record in run.records:
        assert record.episodes == 12
        assert 0 <= record.staleness <= record.staleness_max <= most
    if most:  # episodes did go on while the weights were updated
        assert max(record.staleness_max for record in run.records) > 0


async def test_what_is_too_stale_is_dropped_counted_and_played_again() -> None:
    """The episodes of the first task begin under the first version and end two steps later."""
    steps: list[StepRecord] = []
    held: list[Any] = []

    class Held(RelayEnvironment):
        async def play(self) -> Any:
            held[:] = held or [self.task.seed]
            reason = await super().play()
            # After its tokens were sampled.
            while held == [self.task.seed] and len(steps) < 2:  # noqa: ASYNC110 (of any thread)
                await asyncio.sleep(0.01)
            return reason

    run = await quick(
        replace(relay, environment=Held), max_staleness=1, steps=10, on_step=steps.append
    )
    assert sum(record.dropped for record in run.records) > 0
    assert all(record.episodes == 12 for record in run.records)
    assert all(record.staleness_max <= 1 for record in run.records)


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_garbage_is_collected_while_a_step_waits_for_episodes_played_ahead(
    asynchronous: bool,
) -> None:
    """How long that is, nobody knows; a step that plays its own ends with them, and collects then.

    Tasks are chosen within the first step, in the former case while it waits.
    """
    collecting: list[bool] = []
    run = await quick(
        steps=2,
        asynchronous=asynchronous,
        on_tasks=lambda tasks: collecting.append(gc.isenabled()),
    )
    assert len(run.records) == 2
    assert collecting[0] is asynchronous
    assert gc.isenabled()


async def test_the_queue_is_swept_when_the_version_rises() -> None:
    """Episodes that waited too long are thrown away even if they were fresh when they arrived."""
    model: Any = relay.untrained(0)  # type: ignore[misc]
    learner = CopiedWeights(model, QUICK)
    stream = Stream(
        Player(relay, model=model, role_models={}),
        Plain(relay.tasks),
        learner,
        tasks_per_step=2,
        group=4,
        seed=0,
        max_staleness=1,
        refills=0,
        on_chosen=lambda tasks: None,
    )
    async with stream:
        first = await stream.next(0)
        assert {v for r in first.rollouts for v in versions_of(r, learner)} == {0}
        while not all(group.complete for group in stream._groups.values()):
            stream._news.clear()
            await stream._news.wait()
        model.version += 2  # as if two updates had been published meanwhile
        stream.learnt(first)
        second = await stream.next(1)
    assert {v for r in second.rollouts for v in versions_of(r, learner)} == {2}
    assert second.dropped == 8
    seeds = [rollout.item.seed for rollout in (*first.rollouts, *second.rollouts)]
    assert len(set(seeds)) == 16


async def test_no_more_is_begun_than_the_bound_can_use() -> None:
    begun = 0

    class Counted(RelayEnvironment):
        async def setup(self) -> None:
            nonlocal begun
            begun += 1

    steps: list[int] = []

    def on_step(record: StepRecord) -> None:
        steps.append(begun)

    await quick(replace(relay, environment=Counted), max_staleness=2, steps=5, on_step=on_step)
    for step, so_far in enumerate(steps):
        assert so_far <= (step + 3) * 12  # of this and all earlier steps, and two ahead


@pytest.mark.parametrize("refills", [0, 5])
async def test_what_the_surroundings_failed_is_refilled_within_its_bound(refills: int) -> None:
    class Flaky(RelayEnvironment):
        async def setup(self) -> None:
            if self.task.seed % 3 == 0:
                raise OSError("no container")

    run = await quick(replace(relay, environment=Flaky), refills=refills, steps=3)
    failed = sum(record.failed for record in run.records)
    assert failed > 0
    if refills:
        assert sum(record.refilled for record in run.records) > 0
        assert all(record.episodes >= 11 for record in run.records)
    else:
        assert sum(record.refilled for record in run.records) == 0
        assert any(record.episodes < 12 for record in run.records)


async def test_when_everything_fails_so_does_training_with_the_reason() -> None:
    class Broken(RelayEnvironment):
        async def setup(self) -> None:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        await quick(replace(relay, environment=Broken))


async def test_a_sampler_that_dies_ends_the_training_with_its_error() -> None:
    class Dying(TransformersModel):
        left = 60

        async def sample(self, request: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise ModelError("the engine has died")
            return await super().sample(request)

    made: Any = relay.untrained(3)  # type: ignore[misc]
    model = Dying(made.module, made.tokenizer, seed=3, max_tokens=16)
    with pytest.raises(ModelError, match="died"):
        await quick(model=model, steps=50)


def curve(run: TrainingRun) -> list[dict[str, Any]]:
    left_out = ("cost", "cpu_seconds", "failed", "refilled")
    return [
        {name: value for name, value in record.record().items() if name not in left_out}
        for record in run.records
    ]


async def test_a_recorded_schedule_is_replayed_bit_for_bit_and_through_a_kill(
    tmp_path: Path,
) -> None:
    """Which episodes share a step depended on time; what was learnt from them does not."""
    scenario = slow(lambda seed: (seed % 7) * 0.01)
    run = await quick(scenario, folder=tmp_path / "run", keep_episodes=True)
    again = await quick(replay=tmp_path / "run")
    assert torch.equal(weights(run), weights(again))
    assert curve(run) == curve(again)

    class Cut(Exception):
        pass

    def cut(record: StepRecord) -> None:
        if record.step == 3:
            raise Cut

    how: dict[str, Any] = {
        "replay": tmp_path / "run",
        "folder": tmp_path / "cut",
        "checkpoint_steps": 2,
    }
    with pytest.raises(Cut):
        await quick(**how, on_step=cut, asynchronous=False)
    went_on = await quick(**how, resume=True, asynchronous=False)
    assert torch.equal(weights(run), weights(went_on))


async def test_the_schedule_says_which_attempts_and_versions_went_into_which_step(
    tmp_path: Path,
) -> None:
    run = await quick(folder=tmp_path, steps=4)
    lines = [json.loads(line) for line in (tmp_path / SCHEDULE).read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    assert [line["version"] for line in lines] == [record.version for record in run.records]
    for line in lines:
        assert len(line["attempts"]) == 12
        assert all(
            line["version"] - 1 <= each["oldest"] <= each["newest"] <= line["version"]
            for each in line["attempts"]
        )
    seeds = [each["seed"] for line in lines for each in line["attempts"]]
    assert len(set(seeds)) == len(seeds)


async def test_an_asynchronous_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    how: dict[str, Any] = {"folder": tmp_path, "checkpoint_steps": 1}
    await quick(**how, steps=3)
    run = await quick(**how, steps=5, resume=True)
    assert [record.step for record in run.records] == [*range(5)]
    assert [record.version for record in run.records] == [*range(5)]
    lines = [json.loads(line) for line in (tmp_path / SCHEDULE).read_text().splitlines()]
    assert [line["step"] for line in lines] == [*range(5)]
    assert max(record.staleness_max for record in run.records) <= 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"max_staleness": -1}, "max_staleness"),
        ({"keep_episodes": True}, "folder"),
        ({"replay": "nowhere"}, "no schedule to replay"),
        ({"sampler": object()}, "adapters"),
    ],
)
async def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        await quick(**wrong)


async def test_a_replay_with_other_arguments_is_refused(tmp_path: Path) -> None:
    await quick(folder=tmp_path, keep_episodes=True, steps=2)
    model: Any = relay.untrained(3)  # type: ignore[misc]
    model.version = 7
    with pytest.raises(UsageError, match="began with version 0"):
        await quick(replay=tmp_path, model=model)
    with pytest.raises(UsageError, match="of 2 steps"):
        await quick(replay=tmp_path)


def test_what_is_played_in_addition_adds_up() -> None:
    one, two = Played(rollouts=[], dropped=2, seconds=1.0), Played(rollouts=[], refilled=3)
    one.add(two)
    assert (one.dropped, one.refilled, one.seconds) == (2, 3, 1.0)
