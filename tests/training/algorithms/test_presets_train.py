"""Every published algorithm goes through the whole loop: play, credit, update."""

from __future__ import annotations

import math

import pytest
import torch

from rolecraft.scenarios.relay import relay
from rolecraft.training import ALGORITHMS, algorithm, train

torch.set_num_threads(1)
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
async def test_a_preset_plays_scores_and_moves_the_weights(name: str) -> None:
    """With a smaller group and a learning rate for untrained models; all else is the preset's."""
    group = 4 if ALGORITHMS[name].compares_groups else 2
    before = [weight.clone() for weight in relay.untrained(0).module.parameters()]  # type: ignore[misc]
    preset = algorithm(name, group=group, learning_rate=1e-3)
    run = await train(relay, algorithm=preset, steps=2, tasks_per_step=8, seed=0)
    for record in run.records:
        assert record.skipped == ()
        assert record.actions > 0
        assert math.isfinite(record.loss)
        assert record.grad_norm > 0
        assert record.gap < 1e-5
        assert (record.reference_kl > 0) == (
            record.step > 0 and preset.kl is not None and not preset.kl.in_reward
        )
    after = list(run.model.module.parameters())
    moved = [float((a - b).detach().abs().max()) for a, b in zip(after, before, strict=True)]
    assert 1e-4 < max(moved) < 0.01
