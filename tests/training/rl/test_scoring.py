"""Credit in the loop: critics, references, counterfactuals, running averages, dynamic sampling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.environments.relay import RelayEnvironment
from rolecraft.errors import UsageError
from rolecraft.models.limits import Limits
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.rewards import Signals, reward
from rolecraft.rollouts import PipelineSettings
from rolecraft.scenarios.relay import relay
from rolecraft.training import (
    AdapterSettings,
    Algorithm,
    Credit,
    Critic,
    Kl,
    StepRecord,
    TrainingRun,
    algorithm,
    train,
)
from rolecraft.training.credit import credit
from rolecraft.training.rl.scoring import DYNAMIC_ROUNDS

torch.set_num_threads(1)

QUICK = Algorithm(group=4, learning_rate=1e-3)


async def quick(scenario: Any = relay, **how: Any) -> TrainingRun:
    how.setdefault("algorithm", QUICK)
    return await train(scenario, steps=how.pop("steps", 2), tasks_per_step=4, **how)


def weights(run: TrainingRun) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in run.model.module.parameters()])


PUBLISHED: dict[str, dict[str, Any]] = {
    "grpo": {"group": 4},
    "dapo": {"group": 4, "overlong": None},
    "rloo": {},
    "reinforce++": {"group": 2},
    "gspo": {"group": 4},
    "cispo": {"group": 4},
    "gigpo": {"group": 4},
    "ppo": {"group": 2},
}


@pytest.mark.parametrize("name", PUBLISHED)
async def test_published_algorithms_run_in_the_loop(name: str) -> None:
    run = await quick(algorithm=algorithm(name, **PUBLISHED[name]), steps=1)
    (record,) = run.records
    assert record.episodes >= 4 * run.records[0].groups // 8
    assert record.gap < 1e-5
    assert torch.isfinite(weights(run)).all()


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_critic_goes_on_from_a_checkpoint(tmp_path: Path, asynchronous: bool) -> None:
    """Its heads are the trainer's, and values come from the thread that trains."""
    ppo = Algorithm(group=2, advantage="gae", critic=Critic(), kl=Kl(0.01, "k1"), epochs=2)
    how: dict[str, Any] = {"algorithm": ppo, "asynchronous": asynchronous, "checkpoint_steps": 1}
    await quick(**how, folder=tmp_path, steps=2)
    run = await quick(**how, folder=tmp_path, steps=3, resume=True)
    assert len(run.records) == 3
    if not asynchronous:
        assert torch.equal(weights(run), weights(await quick(**how, steps=3)))


async def test_running_averages_are_in_the_checkpoints(tmp_path: Path) -> None:
    how: dict[str, Any] = {"credit": credit("rae"), "checkpoint_steps": 1}
    await quick(**how, folder=tmp_path, steps=2)
    run = await quick(**how, folder=tmp_path, steps=4, resume=True)
    assert torch.equal(weights(run), weights(await quick(**how, steps=4)))


async def test_a_counterfactual_plays_the_team_without_each_role() -> None:
    run = await quick(credit=credit("counterfactual"), steps=1)
    assert run.records[0].episodes == 16
    assert set(run.records[0].by_role) == {"planner", "executor"}


async def test_episodes_without_a_role_have_the_limits_of_the_others_and_are_played_once() -> None:
    """Also where dynamic sampling adds to a step, whose first episodes are known by then."""
    limits, given = Limits(calls=50), []

    class Watched(RelayEnvironment):
        def __init__(self, *args: Any, **options: Any) -> None:
            given.append(options.get("limits"))
            super().__init__(*args, **options)

    run = await quick(
        replace(relay, environment=Watched, reward=nothing),
        algorithm=replace(QUICK, group=2, dynamic_sampling=True),
        credit=Credit(reward="counterfactual"),
        limits=limits,
        pipeline=PipelineSettings(live=16),
        steps=1,
    )
    (record,) = run.records
    assert record.episodes > 8
    assert given == [limits] * 3 * record.episodes


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_dynamic_sampling_plays_on_until_every_group_says_something(
    asynchronous: bool,
) -> None:
    made = replace(QUICK, dynamic_sampling=True)
    run = await quick(algorithm=made, asynchronous=asynchronous, steps=2)
    for record in run.records:
        assert record.episodes >= 16
        assert record.episodes % 4 == 0
    assert any(record.episodes > 16 for record in run.records)


@reward
def nothing(signals: Signals) -> float:
    return 0.0


async def test_dynamic_sampling_is_bounded_where_nothing_ever_says_anything() -> None:
    made = replace(QUICK, dynamic_sampling=True)
    run = await quick(replace(relay, reward=nothing), algorithm=made, steps=1)
    (record,) = run.records
    assert record.silent_groups == record.groups
    assert record.episodes > 16
    assert run.model.version == 0
    assert DYNAMIC_ROUNDS == 4


@pytest.mark.parametrize(("kl", "version"), [({}, 1), ({"planner": 0.1}, 2)])
async def test_a_penalty_of_one_role_is_learnt_where_nothing_else_says_anything(
    kl: dict[str, float], version: int
) -> None:
    roles = AdapterSettings(roles=["planner", "executor"], rank=2, kl=kl)
    base = tiny_chat_model(context=512, for_adapters=True)
    run = await quick(replace(relay, reward=nothing), model=base, adapters=roles, steps=1)
    assert run.learner is not None
    assert run.learner.version == version


async def test_what_cannot_go_together_is_refused_before_anything_is_played() -> None:
    played: list[StepRecord] = []
    with pytest.raises(UsageError, match="compares turns"):
        await quick(
            credit=Credit(group="role_turn"),
            algorithm=algorithm("ppo"),
            on_step=played.append,
        )
    assert not played


async def test_an_untrained_model_of_another_class_is_kept() -> None:
    model: Any = relay.untrained(0)  # type: ignore[misc]
    run = await quick(model=model, steps=1)
    assert run.model is model
    assert isinstance(run.model, TransformersModel)
