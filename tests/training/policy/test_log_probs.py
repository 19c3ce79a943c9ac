"""Chunked log-probabilities are the plain ones, in value and gradient, in a chunk's memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from rolecraft.models.distribution import NOT_ALLOWED, log_distribution
from rolecraft.training.policy.log_probs import (
    Chosen,
    Logits,
    Support,
    action_log_probs,
    plain_log_probs,
)

torch.set_num_threads(1)

Tensors = list[torch.Tensor]


def chunked(inputs: Tensors, chosen: Chosen) -> tuple[torch.Tensor, torch.Tensor]:
    hidden, weight, bias = inputs
    return action_log_probs(hidden, weight, bias, chosen)


def drawn(
    seed: int, positions: int, vocabulary: int, *, limited: bool, dtype: torch.dtype, **more: Any
) -> tuple[Tensors, Chosen, list[list[int] | None]]:
    """Hidden states, head and bias; and what was chosen, several tokens at some positions."""
    of = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        (0.5 * torch.randn(*shape, generator=of)).to(dtype)
        for shape in ((positions, 5), (vocabulary, 5), (vocabulary,))
    )
    support: list[list[int] | None] = [None] * positions
    if limited:
        for row in range(0, positions, 2):
            size = int(torch.randint(1, min(vocabulary, 40) + 1, (), generator=of))
            support[row] = torch.randperm(vocabulary, generator=of)[:size].tolist()
    pairs = [row for row in range(positions) for _ in range(1 + row % 3)]
    tokens = []
    for row in pairs:
        allowed = support[row] or range(vocabulary)
        tokens.append(allowed[int(torch.randint(len(allowed), (), generator=of))])
    chosen = Chosen(
        torch.tensor(pairs),
        torch.tensor(tokens),
        (torch.rand(positions, generator=of) + 0.5),
        Support(support) if limited else None,
        **more,
    )
    return [hidden, weight, bias], chosen, support


def plain(
    inputs: Tensors, chosen: Chosen, support: list[list[int] | None]
) -> tuple[torch.Tensor, torch.Tensor]:
    """By the sampler's own function, with all logits at once."""
    hidden, weight, bias = inputs
    logits = chosen.logits(hidden @ weight.t() + bias)
    every = list(range(len(weight)))
    ids = [[*(allowed or every)] for allowed in support]
    padded = torch.tensor([row + [NOT_ALLOWED] * (len(every) - len(row)) for row in ids])
    logp = log_distribution(logits, chosen.temperature_D.to(logits.dtype), padded)
    column = torch.tensor(
        [ids[row].index(t) for row, t in zip(chosen.position_P, chosen.token_P, strict=True)]
    )
    safe = logp.masked_fill(logp == -torch.inf, 0.0)
    return logp[chosen.position_P, column], -(logp.exp() * safe).sum(-1)


def with_gradients(of: Any, inputs: Tensors, *, entropy: bool) -> tuple[Tensors, Tensors]:
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    logp, entropies = of(leaves)
    pull = torch.linspace(-1, 1, len(logp), dtype=logp.dtype)
    total = (pull * logp).sum()
    if entropy:
        total = total + (torch.linspace(0.5, 2, len(entropies)) * entropies).sum()
    return [logp.detach(), entropies.detach()], list(torch.autograd.grad(total, leaves))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    positions=st.integers(1, 9),
    vocabulary=st.integers(1, 40),
    rows=st.integers(1, 10),
    limited=st.booleans(),
    entropy=st.booleans(),
    scale=st.sampled_from([1.0, 0.25, 1.5]),
    cap=st.sampled_from([None, 2.0, 30.0]),
)
def test_values_and_gradients_are_those_of_the_plain_computation(
    seed: int,
    positions: int,
    vocabulary: int,
    rows: int,
    limited: bool,
    entropy: bool,
    scale: float,
    cap: float | None,
) -> None:
    inputs, chosen, support = drawn(
        seed,
        positions,
        vocabulary,
        limited=limited,
        dtype=torch.float32,
        chunk=rows * vocabulary,
        logits=Logits(scale, cap),
    )
    ours = with_gradients(lambda leaves: chunked(leaves, chosen), inputs, entropy=entropy)
    exact = [tensor.double() for tensor in inputs]
    theirs = with_gradients(lambda leaves: plain(leaves, chosen, support), exact, entropy=entropy)
    # A gradient is a sum of terms that may cancel: its rounding is that of the terms.
    largest = float(max(tensor.abs().max() for tensor in inputs)) * scale
    terms = largest / float(chosen.temperature_D.min())
    for mine, other in zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True):
        size = max(1.0, terms, float(other.abs().max()))
        torch.testing.assert_close(mine.double(), other, rtol=0, atol=1e-6 * size)


def test_in_float64_they_agree_to_rounding_and_the_models_own_logits_give_the_same() -> None:
    inputs, chosen, support = drawn(3, 12, 30, limited=True, dtype=torch.float64, chunk=60)
    hidden, weight, bias = inputs
    ours = action_log_probs(hidden, weight, bias, chosen)
    own_logits = plain_log_probs(hidden @ weight.t() + bias, chosen)
    for mine, own, other in zip(ours, own_logits, plain(inputs, chosen, support), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)
        torch.testing.assert_close(own, other, rtol=0, atol=1e-12)


def test_in_bfloat16_values_are_those_of_the_models_own_rounded_logits() -> None:
    """As the sampler has them; what is made of them, and the gradient, is float32 until its end."""
    inputs, chosen, _ = drawn(1, 9, 23, limited=True, dtype=torch.bfloat16, chunk=50)
    hidden, weight, bias = inputs
    ours = with_gradients(lambda leaves: chunked(leaves, chosen), inputs, entropy=True)
    rounded = torch.nn.functional.linear(hidden, weight, bias)
    for mine, other in zip(ours[0], plain_log_probs(rounded, chosen), strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)
    wide = [tensor.float() for tensor in inputs]
    exact = with_gradients(lambda leaves: chunked(leaves, chosen), wide, entropy=True)
    for mine, other in zip(ours[1], exact[1], strict=True):
        assert mine.dtype == torch.bfloat16
        largest = float(other.abs().max())
        torch.testing.assert_close(mine.float(), other, rtol=0, atol=2**-6 * largest)


def test_a_frozen_head_gets_no_gradient_and_a_trained_one_does() -> None:
    (hidden, weight, _), chosen, _ = drawn(2, 6, 11, limited=False, dtype=torch.float32)
    hidden.requires_grad_()
    logp, _ = action_log_probs(hidden, weight, None, chosen)
    torch.autograd.backward(logp.sum())
    assert weight.grad is None
    assert hidden.grad is not None
    hidden = hidden.detach()
    logp, _ = action_log_probs(hidden, weight.requires_grad_(), None, chosen)
    torch.autograd.backward(logp.sum())
    assert hidden.grad is None
    assert weight.grad is not None
    assert weight.grad.any()


def test_a_token_that_could_not_be_drawn_has_no_probability() -> None:
    (hidden, weight, bias), _, _ = drawn(4, 1, 5, limited=False, dtype=torch.float32)
    chosen = Chosen(
        torch.tensor([0, 0]), torch.tensor([1, 4]), torch.tensor([1.0]), Support([[1, 2]])
    )
    logp, entropy = action_log_probs(hidden, weight, bias, chosen)
    assert logp[1] == -torch.inf
    assert torch.isfinite(logp[0])
    assert torch.isfinite(entropy).all()


class Sizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The largest tensor that any operation makes, forward or backward, in numbers."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if torch.is_tensor(tensor):
                self.largest = max(self.largest, tensor.untyped_storage().size() // 4)
        return out


@pytest.mark.parametrize("entropy", [False, True])
def test_no_tensor_is_as_large_as_positions_times_vocabulary(entropy: bool) -> None:
    """Saved for the backward pass is less still: nothing that grows with the vocabulary."""
    positions, vocabulary, chunk = 200, 1000, 10_000
    inputs, chosen, support = drawn(
        0, positions, vocabulary, limited=True, dtype=torch.float32, chunk=chunk
    )
    saved: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if not any(tensor.untyped_storage().data_ptr() == known for known in weights):
            saved.append(tensor.numel())
        return tensor

    weights: list[int] = []

    def scored(leaves: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        weights.extend(leaf.untyped_storage().data_ptr() for leaf in leaves)
        return chunked(leaves, chosen)

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), Sizes() as sizes:
        with_gradients(scored, inputs, entropy=entropy)
    assert sizes.largest <= 2 * chunk
    assert max(saved) <= 5 * positions
    with Sizes() as sizes:
        with_gradients(lambda leaves: plain(leaves, chosen, support), inputs, entropy=entropy)
    assert sizes.largest >= positions * vocabulary  # the measure sees them where they are
