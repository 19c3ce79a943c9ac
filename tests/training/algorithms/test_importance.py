"""Truncated importance sampling between the trainer's policy and the one that sampled."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.clips import AnyClip, Clip, DetachedClip, Importance
from rolecraft.training.algorithms.losses import (
    Loss,
    StepSize,
    importance_weights,
    policy_gradient_loss,
)
from rolecraft.training.algorithms.terms import Normalise

torch.set_num_threads(1)
F64 = torch.float64
LOG2 = math.log(2)
MASK = torch.tensor([[True, False, True, True], [True, True, False, False]])
OLD = torch.tensor([[-1.0, math.nan, -1.0, -1.0], [-1.0, -1.0, math.inf, 0.0]], dtype=F64)
SAMPLED = OLD - LOG2 * torch.tensor([[2, 0, -1, 1], [1, -1, 0, 0]], dtype=F64)
"""Against these, the weights are 4, 1/2 and 2 in one sequence, 2 and 1/2 in the other."""


@pytest.mark.parametrize(
    ("importance", "expected", "cut"),
    [
        (Importance(3.0), [[3, 0, 0.5, 2], [2, 0.5, 0, 0]], [[1, 0, 0, 0], [0, 0, 0, 0]]),
        (Importance(3.0, drop=True), [[0, 0, 0.5, 2], [2, 0.5, 0, 0]], [[1, 0, 0, 0], [0] * 4]),
        (Importance(3.0, "sequence"), [[3, 0, 3, 3], [1, 1, 0, 0]], [[1, 0, 1, 1], [0] * 4]),
        (
            Importance(3.0, "sequence", drop=True),
            [[0, 0, 0, 0], [1, 1, 0, 0]],
            [[1, 0, 1, 1], [0] * 4],
        ),
    ],
)
def test_weights_per_token_and_per_sequence(
    importance: Importance, expected: list[list[float]], cut: list[list[int]]
) -> None:
    weights, capped = importance_weights(OLD, SAMPLED, MASK, importance)
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=F64))
    assert capped.int().tolist() == cut


def loss(logp: torch.Tensor, **how: Any) -> Loss:
    how.setdefault("clip", Clip(0.2, 0.28))
    advantages = torch.tensor([[1.0], [-1.0]], dtype=F64)
    return policy_gradient_loss(
        logp, SAMPLED, advantages, MASK, normalise=Normalise.TOKENS, old_logp_NT=OLD, **how
    )


@pytest.mark.parametrize("clip", [Clip(0.2, 0.28), DetachedClip(), Clip(3e-4, 4e-4, "sequence")])
def test_the_first_gradient_is_reinforce_times_the_weights(clip: AnyClip) -> None:
    """Ratios are against the trainer's own policy and begin at exactly 1: nothing is clipped."""
    logp = OLD.clone().requires_grad_()
    ours = loss(logp, importance=Importance(3.0), clip=clip)
    ours.total.backward()
    weights = torch.tensor([[3, 0, 0.5, 2], [2, 0.5, 0, 0]], dtype=F64)
    torch.testing.assert_close(logp.grad, torch.tensor([[-1.0], [1.0]]) * weights / 5)
    assert float(ours.clipped) == 0.0
    assert float(ours.capped) == pytest.approx(1 / 5)
    log_ratio = (OLD - SAMPLED)[MASK]  # `moved` is from the policy that sampled
    assert float(ours.moved) == pytest.approx(float((log_ratio.exp() - 1 - log_ratio).mean()))


def test_what_was_dropped_has_no_gradient_and_still_counts_in_the_divisor() -> None:
    logp = OLD.clone().requires_grad_()
    ours = loss(logp, importance=Importance(3.0, "sequence", drop=True))
    ours.total.backward()
    expected = torch.tensor([[0, 0, 0, 0], [0.2, 0.2, 0, 0]], dtype=F64)
    torch.testing.assert_close(logp.grad, expected)
    assert float(ours.capped) == pytest.approx(3 / 5)


def test_an_engine_that_agrees_needs_no_correction() -> None:
    """Weights within 1e-3 of 1 for a gap of 1e-3; exactly 1 without one, whatever the level."""
    near = torch.where(MASK, OLD + 1e-3, OLD)
    for level in ("token", "sequence"):
        same, _ = importance_weights(OLD, OLD, MASK, Importance(2.0, level))  # type: ignore[arg-type]
        assert torch.equal(same, MASK.to(F64))
    weights, capped = importance_weights(near, OLD, MASK, Importance(2.0))
    torch.testing.assert_close(weights[MASK], torch.ones(5, dtype=F64), rtol=0, atol=1.1e-3)
    assert not capped.any()


def test_micro_batches_change_nothing_and_the_penalties_are_not_weighed() -> None:
    step = StepSize(sequences=2, tokens=5)
    logp = (OLD + 0.1).nan_to_num(0, 0, 0)
    how: dict[str, Any] = {
        "clip": Clip(),
        "normalise": Normalise.TOKENS,
        "importance": Importance(3.0),
        "entropy": 0.1,
        "step": step,
    }

    def part(rows: slice, logp: torch.Tensor, entropy: torch.Tensor) -> torch.Tensor:
        advantages = torch.tensor([[1.0], [-1.0]], dtype=F64)[rows]
        return policy_gradient_loss(
            logp[rows],
            SAMPLED[rows],
            advantages,
            MASK[rows],
            old_logp_NT=OLD[rows],
            entropy_NT=entropy[rows],
            **how,
        ).total

    whole, halves = logp.clone().requires_grad_(), logp.clone().requires_grad_()
    entropy = torch.ones(2, 4, dtype=F64, requires_grad=True)
    part(slice(None), whole, entropy).backward()
    for row in range(2):
        part(slice(row, row + 1), halves, entropy.detach()).backward()
    torch.testing.assert_close(halves.grad, whole.grad)
    torch.testing.assert_close(entropy.grad, -0.1 / 5 * MASK.to(F64))


def test_the_correction_makes_the_expected_gradient_right() -> None:
    """Samples of another policy, every outcome weighed by its probability under that policy."""
    theta = torch.tensor([0.3, -0.4, 0.1], dtype=F64)
    rewards = torch.tensor([0.2, 1.0, -0.5], dtype=F64)
    sampled = torch.tensor([0.5, 0.3, 0.2], dtype=F64)
    pull = torch.zeros(3, dtype=F64)
    for token in range(3):
        parameter = theta.clone().requires_grad_()
        logp = parameter.log_softmax(-1)[token].view(1, 1)
        ours = policy_gradient_loss(
            logp,
            sampled[token].log().view(1, 1),
            rewards[token].view(1, 1),
            torch.ones(1, 1, dtype=torch.bool),
            clip=Clip(),
            normalise=Normalise.TOKENS,
            importance=Importance(100.0),
            old_logp_NT=logp.detach(),
        )
        pull += sampled[token] * torch.autograd.grad(ours.total, parameter)[0]
    parameter = theta.clone().requires_grad_()
    (right,) = torch.autograd.grad((parameter.softmax(-1) * rewards).sum(), parameter)
    torch.testing.assert_close(-pull, right, rtol=0, atol=1e-12)


def test_no_gradient_flows_into_the_old_policy() -> None:
    """Also where one forward pass gives both: the first ratio is 1, and moves with the new one."""
    logp = torch.tensor([[-1.0]], dtype=F64, requires_grad=True)
    ours = policy_gradient_loss(
        logp,
        torch.tensor([[-1.0 - LOG2]], dtype=F64),
        torch.ones(1, 1, dtype=F64),
        torch.ones(1, 1, dtype=torch.bool),
        clip=Clip(),
        normalise=Normalise.TOKENS,
        importance=Importance(3.0),
        old_logp_NT=logp,
    )
    ours.total.backward()
    assert float(logp.grad) == pytest.approx(-2.0)


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in (0.5, math.nan, math.inf):
        with pytest.raises(UsageError, match="cap"):
            Importance(wrong)
    with pytest.raises(UsageError, match="level"):
        Importance(level="word")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="together"):
        loss(OLD.clone())
