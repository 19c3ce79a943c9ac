"""The distribution that tokens are drawn from: one definition for sampler and trainer.

A sampled token's log-probability only means something relative to what else could have been
drawn. The sampler records that (temperature and support) and the trainer computes the same
function of its own logits, so that before the first update both agree to rounding error.

Shapes: N positions, V vocabulary, K allowed ids (padded with `NOT_ALLOWED`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rolecraft.models.hashing import GOLDEN
from rolecraft.models.torch_extra import torch

NOT_ALLOWED = -1
"""Pads rows of support tensors: no token id."""


def log_distribution(
    logits_NV: torch.Tensor,
    temperature_N: torch.Tensor,
    support_NK: torch.Tensor | None = None,
) -> torch.Tensor:
    """Natural log-probabilities of the ids that may be drawn: `[N, K]`, `[N, V]` without support.

    `softmax(logits / temperature)` over the allowed ids; padding gets -inf. Computed in float32
    at least. Temperatures are positive.
    """
    logits = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    if support_NK is not None:
        logits = logits.gather(-1, support_NK.clamp(min=0))
        logits = logits.masked_fill(support_NK == NOT_ALLOWED, -torch.inf)
    return torch.log_softmax(logits / temperature_N[:, None], dim=-1)


def nucleus(logp_NK: torch.Tensor, top_p_N: torch.Tensor) -> torch.Tensor:
    """Keep each row's likeliest ids until their mass reaches `top_p`, renormalised; -inf elsewhere.

    The id that crosses the threshold is kept (Holtzman et al. 2020, arXiv 1904.09751). Rows with a
    `top_p` of 1 come out as they went in, whatever the rounding of their sum.
    """
    sorted_logp, order = logp_NK.sort(dim=-1, descending=True, stable=True)
    probability = sorted_logp.exp()
    before = probability.cumsum(-1) - probability
    dropped = before >= top_p_N[:, None]
    dropped[:, 0] = False
    kept = logp_NK.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), -torch.inf)
    return torch.where(top_p_N[:, None] < 1.0, torch.log_softmax(kept, dim=-1), logp_NK)


def draw(logp_NK: torch.Tensor, uniform_N: torch.Tensor) -> torch.Tensor:
    """Inverse-transform sampling: the first index whose cumulative probability exceeds `uniform`.

    Never an index of probability zero. `uniform_N` is in (0, 1), float64.
    """
    cumulative = logp_NK.exp().cumsum(-1, dtype=torch.float64)
    # Scaling by the last entry instead of 1 makes rounding of the sum harmless.
    threshold = uniform_N[:, None] * cumulative[:, -1:]
    last_possible = (cumulative < cumulative[:, -1:]).sum(-1)
    return torch.minimum((cumulative <= threshold).sum(-1), last_possible)


def uniforms(keys: Sequence[int], positions: Sequence[int]) -> np.ndarray:
    """One number in (0, 1) for each (key, position): the same inputs always give the same number.

    Output number `position` of a splitmix64 generator started at `key` (Steele, Lea and Flood
    2014, "Fast splittable pseudorandom number generators"): a counter-based generator, so a draw
    depends neither on how many were made before nor on who else is in the batch.
    """
    state = np.array(keys, dtype=np.uint64)
    count = np.array(positions, dtype=np.uint64) + np.uint64(1)
    z = state + count * np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    # 52 bits and a half: exact in float64, so neither 0 nor 1 can come out.
    drawn: np.ndarray = ((z >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return drawn
