"""Policy-gradient losses: pure functions of named tensors.

Shapes: N sequences, T tokens of each (or only the action tokens of each; nothing here looks at
neighbours). `action_mask_NT` is True exactly at tokens that the policy chose. Whatever stands at
other positions, NaN included, changes neither a loss nor a gradient.

Every term is a sum over action tokens divided by a size that belongs to the whole optimiser step
(`step`), never to the micro-batch, so that splitting a step into micro-batches changes nothing.
Divisors that looked at the micro-batch alone have been a recurring error of RL libraries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from rolecraft.errors import UsageError
from rolecraft.models._torch import torch

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Clip:
    """Keep the probability ratio in [1 - low, 1 + high]; outside there is no gradient.

    PPO (arXiv 1707.06347) has low = high = 0.2; a larger `high` (0.28) is the "clip-higher" of
    DAPO (arXiv 2503.14476). `level="sequence"` takes the ratio of whole sequences, the geometric
    mean of their tokens' ratios: GSPO (arXiv 2507.18071), with low 3e-4 and high 4e-4. `dual`
    bounds the loss of a bad action at `dual * |advantage|` (arXiv 1912.09729; commonly 3).
    """

    low: float = 0.2
    high: float = 0.28
    level: Literal["token", "sequence"] = "token"
    dual: float | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.low <= 1 and self.high >= 0):
            raise UsageError(
                f"`Clip` wants 0 <= low <= 1 and high >= 0, got {self.low!r} and {self.high!r}."
            )
        if self.level not in ("token", "sequence"):
            raise UsageError(f"`Clip(level=...)` is 'token' or 'sequence', got {self.level!r}.")
        if self.dual is not None and not self.dual > 1:
            raise UsageError(f"`Clip(dual=...)` wants a number above 1, got {self.dual!r}.")


CLIP_HIGHER = Clip(0.2, 0.28)
"""DAPO's: more room upwards, so that unlikely actions can grow."""


@dataclass(frozen=True, slots=True)
class DetachedClip:
    """CISPO (arXiv 2506.13585): the ratio, clipped to [low, high], only weighs the gradient.

    Unlike `Clip`, every action keeps a gradient.
    """

    low: float = 0.0
    high: float = 5.0

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise UsageError(
                f"`DetachedClip` wants 0 <= low < high, got {self.low!r} and {self.high!r}."
            )


class Normalise(Enum):
    """What the sum over action tokens is divided by."""

    SEQUENCES = "sequences"
    """Each sequence's mean over its tokens, then the mean over sequences: GRPO (2402.03300)."""
    TOKENS = "tokens"
    """All tokens of the step count alike: DAPO (2503.14476)."""
    MAX_TOKENS = "max_tokens"
    """Sequences times a constant length: Dr. GRPO (2503.20783). Needs `max_tokens`."""
    MICRO_BATCH = "micro_batch"
    """Tokens of the micro-batch, averaged over micro-batches: TRL's "bnpo". It depends on how the
    step is split, and is here for comparisons only."""


@dataclass(frozen=True, slots=True)
class Kl:
    """A penalty for leaving the reference: `coefficient` times an estimate at each sampled token.

    Both estimators measure KL(policy || reference); what they pull by is their gradient, in
    expectation over tokens of the policy itself (tokens of an older policy are not reweighed):

    - `k2`: the gradient of KL(policy || reference), which shuns what the reference finds unlikely;
    - `k3`: the gradient of KL(reference || policy), which keeps all that the reference finds
      likely. Equation 4 of GRPO (arXiv 2402.03300), and what most libraries use.

    `k1` is no penalty: its gradient, that of the log-probability, is zero in expectation. It is
    one of the estimates of `kl_estimate`.
    """

    coefficient: float = 0.001
    estimator: Literal["k2", "k3"] = "k3"

    def __post_init__(self) -> None:
        if self.estimator not in ("k2", "k3"):
            raise UsageError(
                f"`Kl(estimator=...)` is 'k2' or 'k3', got {self.estimator!r}. The gradient of "
                f"KL(policy || reference), which 'k1' does not have, is that of 'k2'."
            )
        if not 0 <= self.coefficient < math.inf:
            raise UsageError(
                f"`Kl(coefficient=...)` wants a number from 0, got {self.coefficient!r}."
            )


@dataclass(frozen=True, slots=True)
class StepSize:
    """How much one optimiser step holds, all its micro-batches together."""

    sequences: int
    tokens: int
    """Action tokens."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss and what it consists of. Everything but `total` is detached, for reports.

    All parts are shares of the whole step: over its micro-batches they add up.
    """

    total: Tensor
    policy: Tensor
    kl: Tensor
    """Mean estimate of the divergence from the reference, per action; 0 without one."""
    entropy: Tensor
    """Mean entropy per action, in nats; 0 if not given."""
    moved: Tensor
    """Mean k3 estimate of the divergence from the policy that sampled, per action, in nats."""
    clipped: Tensor
    """Share of actions whose gradient the clip cut off, or whose weight it changed."""


def policy_gradient_loss(
    logp_NT: Tensor,
    sampled_logp_NT: Tensor,
    advantage_NT: Tensor,
    action_mask_NT: Tensor,
    *,
    clip: Clip | DetachedClip,
    normalise: Normalise,
    step: StepSize | None = None,
    max_tokens: int | None = None,
    kl: Kl | None = None,
    reference_logp_NT: Tensor | None = None,
    entropy: float = 0.0,
    entropy_NT: Tensor | None = None,
) -> Loss:
    """Clipped policy gradient over action tokens, with optional divergence and entropy terms.

    With r = exp(logp - sampled_logp) and advantage A, an action costs -min(r A, clip(r) A) (`Clip`)
    or -stop_gradient(clip(r)) A logp (`DetachedClip`). Equation 10 of DAPO (arXiv 2503.14476) is
    `clip=Clip(0.2, 0.28)`, `normalise=Normalise.TOKENS`.

    `logp_NT` and `entropy_NT` carry gradients. `advantage_NT` may be `[N, 1]`. `step` is the size
    of the optimiser step that this micro-batch is part of, by default this batch alone;
    `max_tokens` is the constant length of `Normalise.MAX_TOKENS`. `kl` needs `reference_logp_NT`,
    `entropy` (the bonus per nat) needs `entropy_NT`.
    """
    mask = action_mask_NT
    logp, sampled_logp, advantage = (
        _only(mask, values) for values in (logp_NT, sampled_logp_NT, advantage_NT)
    )
    log_ratio = logp - sampled_logp
    if isinstance(clip, DetachedClip):
        ratio = log_ratio.detach().exp()
        weight = ratio.clamp(clip.low, clip.high)
        cost, clipped = -weight * advantage * logp, weight != ratio
    else:
        cost, clipped = _clipped_cost(log_ratio, advantage, mask, clip)

    tokens = step.tokens if step is not None else _count(mask)
    weight_NT = _weights(mask.to(logp.dtype), normalise, step, max_tokens)
    policy = (weight_NT * cost).sum()
    total = policy
    divergence = bonus = torch.zeros((), dtype=logp.dtype, device=logp.device)
    if kl is not None:
        if reference_logp_NT is None:
            raise UsageError("`policy_gradient_loss(kl=...)` needs `reference_logp_NT`.")
        per_token = _only(mask, kl_estimate(logp, _only(mask, reference_logp_NT), kl.estimator))
        total = total + kl.coefficient * (weight_NT * per_token).sum()
        divergence = per_token.sum().detach() / tokens
    if entropy_NT is not None:
        per_token = _only(mask, entropy_NT)
        total = total - entropy * (weight_NT * per_token).sum()
        bonus = per_token.sum().detach() / tokens
    elif entropy:
        raise UsageError("`policy_gradient_loss(entropy=...)` needs `entropy_NT`.")
    with torch.no_grad():
        # Of samples of the old policy, whose divergence from the new one is E[r - 1 - log r].
        moved = (log_ratio.exp() - 1 - log_ratio).sum() / tokens
    return Loss(
        total, policy.detach(), divergence, bonus, moved, (clipped & mask).sum().detach() / tokens
    )


def kl_estimate(
    logp: Tensor, reference_logp: Tensor, estimator: Literal["k1", "k2", "k3"]
) -> Tensor:
    """Per-sample estimates of KL(policy || reference) at samples of the policy.

    With d = reference_logp - logp: k1 = -d (unbiased), k2 = d^2 / 2 (biased, low variance),
    k3 = e^d - d - 1 (unbiased, never negative). Schulman 2020, "Approximating KL divergence".
    An unbiased value need not have the divergence's gradient: see `Kl`.
    """
    d = reference_logp - logp
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return d.square() / 2
    if estimator == "k3":
        return d.exp() - d - 1
    raise UsageError(f"`kl_estimate(estimator=...)` is 'k1', 'k2' or 'k3', got {estimator!r}.")


def _clipped_cost(
    log_ratio: Tensor, advantage: Tensor, mask: Tensor, clip: Clip
) -> tuple[Tensor, Tensor]:
    if clip.level == "sequence":
        lengths = mask.sum(-1, keepdim=True).clamp(min=1)
        log_ratio = (log_ratio.sum(-1, keepdim=True) / lengths).expand_as(log_ratio)
    ratio = log_ratio.exp()
    free = ratio * advantage
    bounded = ratio.clamp(1 - clip.low, 1 + clip.high) * advantage
    gain, clipped = torch.minimum(free, bounded), bounded < free
    if clip.dual is not None:
        floor = clip.dual * advantage
        cut = (advantage < 0) & (floor > gain)
        gain, clipped = torch.where(cut, floor, gain), clipped | cut
    return -gain, clipped


def _weights(
    actions: Tensor, normalise: Normalise, step: StepSize | None, max_tokens: int | None
) -> Tensor:
    """What each token's cost is multiplied by, `[N, T]`; `actions` is 1 at actions, 0 elsewhere."""
    sequences = step.sequences if step is not None else len(actions)
    if normalise is Normalise.SEQUENCES:
        return actions / actions.sum(-1, keepdim=True).clamp(min=1) / sequences
    if normalise is Normalise.TOKENS:
        return actions / (step.tokens if step is not None else _count(actions))
    if normalise is Normalise.MICRO_BATCH:
        return actions / _count(actions) * (len(actions) / sequences)
    if max_tokens is None:
        raise UsageError(
            "`Normalise.MAX_TOKENS` needs `max_tokens`, the longest answer in action tokens."
        )
    return actions / (sequences * max_tokens)


def _only(mask: Tensor, values: Tensor) -> Tensor:
    # Not `values * mask`: 0 times NaN is NaN, in the value and in the gradient.
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))


def _count(actions: Tensor) -> int:
    return max(int(actions.sum()), 1)
