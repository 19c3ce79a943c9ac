"""The whole loop learns: asynchronously, and with two adapters on a base that SFT has warmed up.

`benchmarks/rl_curves.py` does the same for more seeds.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.models import FunctionModel
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.rollouts import collect, episodes
from rolecraft.scenarios.relay import relay, untrained
from rolecraft.training import FROM_SCRATCH, TrainingRun, train
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.sft.run import fine_tune
from rolecraft.training.sft.settings import SFTSettings
from rolecraft.trajectories.jsonl import save

pytestmark = pytest.mark.slow

torch.set_num_threads(1)


async def unseen(model: Any) -> float:
    """Mean reward on 256 tasks of the test split."""
    tasks = relay.tasks.sample(256, seed=1000, split="test")
    results = await collect(relay, tasks, model=model, concurrency=256)
    return sum(episode.reward.value for episode in episodes(results)) / len(tasks)


async def test_both_roles_learn_while_episodes_go_on() -> None:
    """Above 0.40 both have learnt: no single one can bring the team further.

    After how many steps it is 0.9 (some 40) depends on how a processor rounds.
    """
    run = await train(relay, steps=300, seed=1, until=0.9, asynchronous=True, max_staleness=1)
    assert len(run.records) < 300
    assert run.records[0].reward == pytest.approx(0.2, abs=0.06)
    assert max(record.staleness_max for record in run.records) == 1  # it did not wait
    assert await unseen(run.model) > 0.85


async def warmed(folder: Path) -> tuple[TransformersModel, dict[str, Path]]:
    """A base of random weights, and an adapter for each role from the runs of a teacher that is
    right four times in five: docs/sft-warm-up.md."""
    base: Any = untrained(1)
    torch.manual_seed(1)
    torch.nn.init.normal_(base.module.lm_head.weight, std=0.25)
    base.save(folder / "base")
    draw = random.Random(0)

    def teach(call: Any) -> str:
        words = call.messages[-1].content.split()
        right = words[1] if call.role == "planner" else str((int(words[1]) + int(words[3])) % 5)
        return right if draw.random() < 0.8 else draw.choice(call.sampling.choices)

    tasks = relay.tasks.sample(300, seed=1)
    played = episodes(await collect(relay, tasks, model=FunctionModel(teach)))
    for number, episode in enumerate(played):
        if episode.reward.value == 1:
            save(episode.trajectory, folder / "runs" / f"{number}.jsonl")
    settings = SFTSettings(
        model=str(folder / "base"),
        data=(str(folder / "runs"),),
        output=folder / "warm",
        roles=("planner", "executor"),
        batch=16,
        accumulate=1,
        epochs=3,
        rate=3e-3,
        eval_share=0.0,
        threads=1,
    )
    fine_tune(settings)
    model = TransformersModel.load(folder / "base", seed=0)
    return model, {role: folder / "warm" / role for role in settings.roles}


async def test_two_adapters_on_a_warmed_base_reach_nine_in_ten(tmp_path: Path) -> None:
    model, starts = await warmed(tmp_path)
    adapters = AdapterSettings(roles=[*starts], starts=starts)
    algorithm = replace(FROM_SCRATCH, learning_rate=5e-4, epochs=2)
    run: TrainingRun = await train(
        relay,
        model=model,
        adapters=adapters,
        algorithm=algorithm,
        steps=40,
        tasks_per_step=32,
        until=0.92,
        folder=tmp_path / "run",
    )
    first = run.records[0].reward
    assert 0.35 < first < 0.85  # it was warmed up, and there is something left to learn
    assert max(record.gap for record in run.records) < 1e-4
    assert await unseen(model) >= 0.9
