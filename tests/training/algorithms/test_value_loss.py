"""A critic's loss."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.losses import StepSize, value_loss
from rolecraft.training.algorithms.terms import Critic, Normalise

torch.set_num_threads(1)
F64 = torch.float64
NORMALISES = [Normalise.SEQUENCES, Normalise.TOKENS, Normalise.MAX_TOKENS]


@pytest.mark.parametrize(
    ("value", "target", "loss", "gradient"),
    [
        (1.2, 2.0, 0.5 * 0.64, -0.8),  # moved by 0.2: free
        (1.7, 2.0, 0.5 * 0.25, 0.0),  # moved past 1.5, towards the target: counts as 1.5
        (1.7, 0.0, 0.5 * 2.89, 1.7),  # moved past it, away from the target: pulled back
    ],
)
def test_one_value(value: float, target: float, loss: float, gradient: float) -> None:
    now = torch.tensor([[value]], dtype=F64, requires_grad=True)
    ours = value_loss(
        now,
        torch.ones(1, 1, dtype=F64),
        torch.full((1, 1), target, dtype=F64),
        torch.ones(1, 1, dtype=torch.bool),
        critic=Critic(coefficient=1.0, clip=0.5),
    )
    ours.total.backward()
    assert float(ours.total.detach()) == pytest.approx(loss)
    assert float(now.grad) == pytest.approx(gradient)
    assert float(ours.error) == pytest.approx((value - target) ** 2)
    assert float(ours.clipped) == float(value == 1.7)


def test_without_a_clip_it_is_half_the_squared_error_times_the_coefficient() -> None:
    now = torch.tensor([[3.0, math.nan]], dtype=F64, requires_grad=True)
    mask = torch.tensor([[True, False]])
    zero = torch.zeros(1, 2, dtype=F64)
    ours = value_loss(now, zero, zero, mask, critic=Critic(coefficient=0.1, clip=None))
    ours.total.backward()
    assert float(ours.total.detach()) == pytest.approx(0.45)
    assert now.grad.tolist() == [[pytest.approx(0.3), 0.0]]
    assert float(ours.clipped) == 0.0


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 2), min_size=4, max_size=4))
@pytest.mark.parametrize("normalise", NORMALISES)
def test_micro_batches_padding_and_what_is_masked_change_nothing(
    normalise: Normalise, seed: int, part_of: list[int]
) -> None:
    g = torch.Generator().manual_seed(seed)
    value, old, target = (torch.randn(4, 5, generator=g, dtype=F64) for _ in range(3))
    mask = torch.rand(4, 5, generator=g) < 0.6
    mask[:, 0] = True
    step = StepSize(4, int(mask.sum()))
    longest = 5 if normalise is Normalise.MAX_TOKENS else None
    how = {"critic": Critic(clip=0.5), "normalise": normalise, "step": step, "max_tokens": longest}
    whole = value.clone().requires_grad_()
    value_loss(whole, old, target, mask, **how).total.backward()  # type: ignore[arg-type]
    split = torch.where(mask, value, math.nan).requires_grad_()
    for part in set(part_of):
        rows = [row for row, its_part in enumerate(part_of) if its_part == part]
        dirty = torch.where(mask, target, math.inf)
        value_loss(split[rows], old[rows], dirty[rows], mask[rows], **how).total.backward()  # type: ignore[arg-type]
    torch.testing.assert_close(split.grad, whole.grad)
    assert not whole.grad[~mask].any()


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 1.1},
        {"lam": -0.1},
        {"coefficient": 0.0},
        {"clip": 0.0},
        {"learning_rate": math.inf},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Critic(**wrong)
