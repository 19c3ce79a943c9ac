"""Both roles of `relay` learn, and only together: the ceilings with one role frozen are provable.

With a planner who guesses, no executor brings the team above 1/4 + 3/4 * 1/5 = 0.40; with an
executor who guesses, no planner above 0.20. Scores above those ceilings prove that both learnt.
"""

from __future__ import annotations

import pytest

from rolecraft.models.chance import UniformModel
from rolecraft.rollouts import collect, episodes
from rolecraft.scenarios.relay import relay
from rolecraft.training import TrainingRun, train

SEEDS = (0, 1, 2)
STEPS = 60


async def unseen(run: TrainingRun, frozen: tuple[str, ...] = ()) -> float:
    """Mean reward on 512 tasks that are in no training set."""
    tasks = relay.tasks.sample(512, seed=1000, split="test")
    models = {role: UniformModel() for role in frozen}
    results = await collect(relay, tasks, model=run.model, role_models=models, concurrency=512)
    return sum(episode.reward.value for episode in episodes(results)) / len(tasks)


async def test_training_both_roles_brings_the_team_from_chance_to_success() -> None:
    run = await train(relay, steps=STEPS, seed=7, until=0.93)
    assert run.records[0].reward == pytest.approx(0.2, abs=0.06)
    assert await unseen(run) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_training_both_roles_exceeds_what_either_alone_could(seed: int) -> None:
    run = await train(relay, steps=STEPS, seed=seed, until=0.93)
    assert await unseen(run) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_with_the_planner_frozen_the_team_stays_below_its_ceiling(seed: int) -> None:
    # Alone it learns more slowly, and not with every seed alike: it gets the steps that it needs.
    run = await train(relay, steps=3 * STEPS, seed=seed, frozen=["planner"], until=0.35)
    assert 0.25 < await unseen(run, frozen=("planner",)) <= 0.45


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_with_the_executor_frozen_the_team_stays_at_chance(seed: int) -> None:
    run = await train(relay, steps=STEPS, seed=seed, frozen=["executor"])
    assert await unseen(run, frozen=("executor",)) <= 0.25
