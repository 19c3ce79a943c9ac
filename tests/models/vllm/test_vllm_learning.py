"""Adapters that our trainer trains, role by role, served by a real vLLM: both compute the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rolecraft.messages import Message
from rolecraft.models.base import Sampling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

ROLES = ("solver", "checker")


async def test_vllm_samples_from_the_adapters_that_are_trained(
    model: Any, reference: Any, tmp_path: Path
) -> None:
    """Three updates of two roles, each sampled with the adapters of the last: what vLLM says of
    its samples is what the trainer computes for them, and each role is served its own."""
    from rolecraft.training import (
        AdapterSettings,
        Algorithm,
        Trainer,
        TrainingSequence,
        training_sequences,
    )
    from rolecraft.trajectories.events import Event
    from rolecraft.trajectories.trajectory import Trajectory

    settings = AdapterSettings(roles=ROLES, rank=8)
    trainer = Trainer(reference(), Algorithm(learning_rate=2e-2), adapters=settings)

    async def play(role: str, seed: int) -> TrainingSequence:
        session = model.session(role, system=f"You are the {role}.", seed=seed)
        answer = await session.generate(
            [Message(f"Part {seed}?")], sampling=Sampling(max_tokens=12)
        )
        trajectory = Trajectory(f"t{seed}")
        trajectory.events.append(Event("model_call", role=role, tokens=answer.tokens))
        (sequence,) = training_sequences(trajectory)
        sequence.credit(1.0 if seed % 4 < 2 else -1.0)
        return sequence

    for version in (1, 2, 3):
        for role, folder in trainer.save_adapters(tmp_path / str(version)).items():
            await model.load_adapter(role, folder, version=version)
        sequences = await asyncio.gather(*(play(ROLES[seed % 2], seed) for seed in range(16)))
        names = {(s.role, *s.adapters) for s in sequences}
        assert names == {(role, f"{role}@{version}") for role in ROLES}
        stats = trainer.update(sequences)
        for role in ROLES:
            assert stats.roles[role].gap < 1e-3
            assert stats.roles[role].clipped == 0
    # The adapters matter: the base would have said something else of the same samples.
    base = trainer.reference_logprobs(sequences)
    gaps = [
        abs(mine - theirs)
        for s, numbers in zip(sequences, base, strict=True)
        for mine, theirs in zip(s.logprobs, numbers, strict=True)
        if theirs
    ]
    assert max(gaps) > 0.1
    for role in ROLES:
        await model.unload_adapter(role)
