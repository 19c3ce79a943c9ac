"""Weights of few bits are trained on float32 copies, or small steps would round away."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from rolecraft.models.tiny import tiny_model
from rolecraft.training import Algorithm, Trainer, TrainingSequence

torch.set_num_threads(1)


def module(dtype: torch.dtype) -> Any:
    made = tiny_model("abcdefgh").module
    torch.manual_seed(0)
    for weight in made.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.05)
    return made.to(dtype)


def sequences() -> list[TrainingSequence]:
    return [
        TrainingSequence(
            f"s{number}",
            "r",
            ids=[1, 5, 6, 7, 5 + number % 4, 6],
            action_mask=[False] * 3 + [True] * 3,
            logprobs=[0.0] * 3 + [-2.5] * 3,
            temperatures=[1.0] * 6,
            support=[None] * 6,
            advantages=[0.0] * 3 + [1.0 if number % 2 else -1.0] * 3,
        )
        for number in range(8)
    ]


def weights(module: Any) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])


def masters(trainer: Trainer) -> torch.Tensor:
    return torch.cat([weight.flatten() for weight in trainer.groups[""].masters])


def test_a_bfloat16_model_learns_at_the_default_learning_rate() -> None:
    """Seen: 20 updates of a bfloat16 model changed 760 of 103,104 weights, without a word."""
    trained = module(torch.bfloat16)
    trainer = Trainer(trained, Algorithm())
    start = weights(trained)
    has_gradient = torch.zeros(len(start), dtype=torch.bool)

    def look(*_: Any) -> None:
        seen = [weight.grad.flatten() != 0 for weight in trainer.groups[""].masters]
        has_gradient.logical_or_(torch.cat(seen))

    trainer.groups[""].optimizer.register_step_pre_hook(look)
    shares = []
    for _ in range(10):
        for _ in range(20):
            trainer.update(sequences())
        shares.append(float((weights(trained) != start)[has_gradient].float().mean()))
    assert has_gradient.float().mean() > 0.5
    assert (masters(trainer) != start.float())[has_gradient].float().mean() > 0.99
    assert shares == sorted(shares)  # what the steps add up to shows more and more
    assert shares[-1] > 0.25
    assert torch.equal(masters(trainer).bfloat16(), weights(trained))


def test_it_moves_as_far_as_a_float32_model_does() -> None:
    ends = []
    for dtype in (torch.float32, torch.bfloat16):
        trained = module(torch.bfloat16).to(dtype)  # the same numbers for both
        trainer = Trainer(trained, Algorithm(learning_rate=1e-5))
        start = masters(trainer).detach().clone()
        for _ in range(20):
            trainer.update(sequences())
        ends.append(masters(trainer).detach() - start)
    assert torch.cosine_similarity(ends[0], ends[1], dim=0) > 0.9
    assert float(ends[1].norm() / ends[0].norm()) == pytest.approx(1.0, abs=0.25)


def test_micro_batches_add_up_in_float32() -> None:
    """In bfloat16, the sum of many small gradients stops growing."""
    algorithm = Algorithm(learning_rate=1e-5)
    whole = Trainer(module(torch.bfloat16), algorithm)
    split = Trainer(module(torch.bfloat16), replace(algorithm, micro_batch_tokens=1))
    for trainer in (whole, split):
        trainer.update(sequences())
        assert all(weight.grad is None for weight in trainer.groups[""].weights)
        assert all(weight.dtype == torch.float32 for weight in trainer.groups[""].masters)
    assert split.groups[""].optimizer.state_dict()["state"][0]["exp_avg"].dtype == torch.float32
    moved = [
        masters(trainer) - weights(module(torch.bfloat16)).float() for trainer in (whole, split)
    ]
    assert torch.cosine_similarity(moved[0], moved[1], dim=0) > 0.9


def test_weights_that_somebody_loads_between_updates_are_not_undone() -> None:
    trained = module(torch.bfloat16)
    trainer = Trainer(trained, Algorithm())
    trainer.update(sequences())
    with torch.no_grad():
        trained.lm_head.weight.fill_(0.25)
    kept = copy.deepcopy(trainer.groups[""].masters[0])
    trainer.update(sequences())
    assert (trained.lm_head.weight - 0.25).abs().max() < 1e-3
    assert (trainer.groups[""].masters[0] - kept).abs().max() < 1e-5  # nothing is lost elsewhere


def test_float32_weights_are_their_own_masters() -> None:
    group = Trainer(module(torch.float32), Algorithm()).groups[""]
    assert all(a is b for a, b in zip(group.weights, group.masters, strict=True))
