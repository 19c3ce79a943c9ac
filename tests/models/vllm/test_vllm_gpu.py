"""The same on a CUDA device, in bfloat16: wants vLLM's ordinary package and a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolecraft.messages import Message

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

# Log-probabilities of two engines in bfloat16; TRL and vLLM are 0.008 apart in the mean.
TOLERANCE = 0.15


async def test_an_adapter_on_a_gpu_is_the_one_that_was_trained(
    base: Path, make_adapter: Any, reference: Any
) -> None:
    from rolecraft.models.adapter_proof import token_logprobs
    from rolecraft.models.vllm_model import VLLMModel

    model = VLLMModel(
        str(base),
        dtype="bfloat16",
        max_rank=8,
        engine={"gpu_memory_utilization": 0.3, "enforce_eager": True},
    )
    try:
        folder, ids = make_adapter(1), list(range(40, 120))
        await model.load_adapter("planner", folder)
        expected = token_logprobs(reference(folder), ids)
        proof = await model.verify_adapter("planner", ids, expected, tolerance=TOLERANCE)
        assert proof.effect > 3 * TOLERANCE
        answer = await model.session("planner").generate([Message("Hello?")])
        assert answer.tokens is not None
        assert answer.tokens.adapter == "planner@1"
    finally:
        await model.aclose()
