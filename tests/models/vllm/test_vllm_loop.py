"""The training loop with a real vLLM as its sampler: two adapters, swapped after every update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

ROLES = ("planner", "executor")
STEPS = 20


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_twenty_steps_with_swaps_keep_sampler_and_trainer_together(
    model: Any, reference: Callable[..., Any], asynchronous: bool
) -> None:
    """What vLLM says of its samples is, after every swap, what the trainer computes for them; the
    loop itself checks that what vLLM took in has the digest of what was trained."""
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.scenarios.relay import relay
    from rolecraft.training import AdapterSettings, Algorithm, train

    before = {role: model.adapters.last(role) for role in ROLES}
    run = await train(
        relay,
        model=TransformersModel(reference(), model.tokenizer, name="tiny"),
        sampler=model,
        adapters=AdapterSettings(roles=ROLES, rank=8),
        algorithm=Algorithm(group=4, learning_rate=5e-3, advantage="dr_grpo", entropy=0.01),
        steps=STEPS,
        tasks_per_step=4,
        asynchronous=asynchronous,
        max_staleness=1,
    )
    assert len(run.records) == STEPS
    learnt = [record for record in run.records if record.grad_norm > 0]
    assert len(learnt) > STEPS / 2  # steps whose groups said something
    assert len({record.version for record in learnt}) == len(learnt)
    if not asynchronous:  # else a stale sample is another policy's, and its ratio says so
        assert max(record.gap for record in learnt) < 1e-2
    for role in ROLES:
        assert model.adapters.last(role) - before[role] > len(learnt)
        await model.unload_adapter(role)
