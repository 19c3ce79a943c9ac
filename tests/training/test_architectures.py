"""Real architectures of transformers: batches change nothing, and trainer and sampler agree."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch
import transformers

from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.tiny import tiny_tokenizer
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training import TrainingSequence, training_sequences
from rolecraft.training.policy.batches import micro_batches
from rolecraft.trajectories import Event, Trajectory

torch.set_num_threads(1)

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
ARCHITECTURES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "Qwen3": (transformers.Qwen3Config, {**SHAPE, "head_dim": 8}),
    "mixture of experts": (transformers.Qwen2MoeConfig, {**SHAPE, **EXPERTS}),
    "sliding window, capped logits": (
        transformers.Gemma2Config,
        {**SHAPE, "head_dim": 8, "sliding_window": 8},
    ),
    "scaled logits": (transformers.GraniteConfig, {**SHAPE, "logits_scaling": 3.0}),
    "learnt positions": (
        transformers.GPT2Config,
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    ),
}

QUESTIONS: list[tuple[str, Sampling]] = [
    ("a", Sampling()),
    ("a b c d", Sampling(temperature=0.5, max_tokens=9)),
    ("h", Sampling(choices=("a b", "a c d", "e"))),
    ("g g g g g g g g", Sampling(top_p=0.7, max_tokens=9)),
]


def random_model(name: str) -> TransformersModel:
    tokenizer = tiny_tokenizer("abcdefgh")
    make, shape = ARCHITECTURES[name]
    torch.manual_seed(0)
    config = make(
        vocab_size=len(tokenizer), bos_token_id=None, eos_token_id=0, pad_token_id=0, **shape
    )
    module = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return TransformersModel(module, tokenizer, name=name, max_tokens=5)


async def talk(model: TransformersModel, number: int) -> Trajectory:
    """Two turns: the second feeds a whole stretch of new tokens after what was sampled."""
    session = model.session("r", seed=number)
    trajectory = Trajectory(str(number))
    text, how = QUESTIONS[number % len(QUESTIONS)]
    for message, sampling in ((text, how), ("b c", Sampling(max_tokens=3))):
        completion = await session.generate([Message(message)], sampling=sampling)
        trajectory.events.append(Event("model_call", role="r", tokens=completion.tokens))
    return trajectory


@pytest.mark.parametrize("name", ARCHITECTURES)
async def test_sampler_and_trainer_are_exact_on(name: str) -> None:
    model = random_model(name)
    alone = [await talk(model, number) for number in range(12)]
    together = await asyncio.gather(*(talk(model, number) for number in range(12)))
    sequences: list[TrainingSequence] = []
    for one, other in zip(alone, together, strict=True):
        for ours, theirs in zip(one.events, other.events, strict=True):
            assert ours.tokens is not None
            assert theirs.tokens is not None
            assert ours.tokens.sampled == theirs.tokens.sampled
            assert ours.tokens.logprobs == pytest.approx(theirs.tokens.logprobs, abs=1e-5)
        sequences += training_sequences(other)
    for batch in micro_batches(sequences, model.module, max_tokens=100):
        logp_NA, _ = batch.log_probs(model.module)
        torch.testing.assert_close(logp_NA, batch.sampled_logp_NA, rtol=0, atol=1e-5)
