"""An adapter in a real vLLM and the model it was merged into say the same, to 1e-4 in float32."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

PROBE = list(range(40, 120))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merged(
    make_adapter: Any, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Path, Any]]:
    """The adapter, and an engine for the model that it was merged into."""
    from rolecraft.models.vllm_model import VLLMModel
    from rolecraft.training.merge import merge

    adapter = make_adapter(71)
    folder = tmp_path_factory.mktemp("merged") / "tiny-merged"
    assert merge(adapter, folder).largest < 1e-4
    made = VLLMModel(
        str(folder),
        name="tiny-merged",
        dtype="float32",
        max_adapters=0,
        engine={"enforce_eager": True, "max_num_seqs": 8, "kv_cache_memory_bytes": 1 << 26},
    )
    await made.prepare()
    yield adapter, made
    await made.aclose()


async def test_the_merged_model_and_the_served_adapter_have_the_logits_of_peft(
    model: Any, merged: tuple[Path, Any], reference: Any
) -> None:
    from rolecraft.messages import Message
    from rolecraft.models.adapter_proof import token_logprobs
    from rolecraft.models.base import Sampling

    adapter, engine = merged
    expected = token_logprobs(reference(adapter), PROBE)
    await model.load_adapter("merger", adapter)
    proof = await model.verify_adapter("merger", PROBE, expected)
    assert proof.gap < 1e-4 < 0.5 < proof.effect
    session = engine.session("merger", seed=1)
    answer = await session.generate([Message("Read register b.")], sampling=Sampling(max_tokens=24))
    assert answer.tokens is not None
    told = token_logprobs(reference(adapter), session.tokens)[-len(answer.tokens.sampled) :]
    assert answer.tokens.logprobs == pytest.approx(told, abs=1e-4)
