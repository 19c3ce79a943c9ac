"""Policy-gradient losses: pure functions of named tensors.

Shapes: N sequences, T tokens of each (or only the action tokens of each; nothing here looks at
neighbours). `action_mask_NT` is True exactly at tokens that the policy chose. Whatever stands at
other positions, NaN included, changes neither a loss nor a gradient.

Every term is a sum over action tokens divided by a size that belongs to the whole optimiser step
(`step`), never to the micro-batch, so that splitting a step into micro-batches changes nothing.
Divisors that looked at the micro-batch alone have been a recurring error of RL libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.algorithms.clips import (
    AnyClip,
    DetachedClip,
    Importance,
    ProbabilityClip,
)
from rolecraft.training.algorithms.terms import Critic, Kl, Normalise

Tensor = torch.Tensor

MOST_K3 = 20.0
"""What a log-ratio counts as at most in a k3 estimate. e^d is beyond float32 from d = 88.7, and one
such token of a stale sequence would be an infinite loss, and with it the whole step's; e^20 is a
divergence of 5e8 nats at one token already. The bound is verl's (`kl_penalty`, "low_var_kl")."""


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
    capped: Tensor
    """Share of actions whose importance weight was above its cap; 0 without `importance`."""


def policy_gradient_loss(
    logp_NT: Tensor,
    sampled_logp_NT: Tensor,
    advantage_NT: Tensor,
    action_mask_NT: Tensor,
    *,
    clip: AnyClip,
    normalise: Normalise,
    step: StepSize | None = None,
    max_tokens: int | None = None,
    kl: Kl | None = None,
    reference_logp_NT: Tensor | None = None,
    entropy: float = 0.0,
    entropy_NT: Tensor | None = None,
    importance: Importance | None = None,
    old_logp_NT: Tensor | None = None,
) -> Loss:
    """Clipped policy gradient over action tokens, with optional divergence and entropy terms.

    With r = exp(logp - sampled_logp) and advantage A, an action costs

    - `Clip`: -min(r A, clip(r) A);
    - `DetachedClip`: -stop_gradient(clip(r)) A logp;
    - `ProbabilityClip`: -r A, or nothing where the probability has moved too far A's way.

    Equation 10 of DAPO (arXiv 2503.14476) is `clip=Clip(0.2, 0.28)`, `normalise=Normalise.TOKENS`.
    With `importance`, r is taken against `old_logp_NT`, the trainer's own log-probabilities at the
    start of the update, and the cost is multiplied by `importance_weights`.

    `logp_NT` and `entropy_NT` carry gradients. `advantage_NT` may be `[N, 1]`. `step` is the size
    of the optimiser step that this micro-batch is part of, by default this batch alone;
    `max_tokens` is the constant length of `Normalise.MAX_TOKENS`. `kl` (k2 or k3) needs
    `reference_logp_NT`, `entropy` (the bonus per nat) needs `entropy_NT`.
    """
    mask = action_mask_NT
    logp, sampled_logp, advantage = (
        _only(mask, values) for values in (logp_NT, sampled_logp_NT, advantage_NT)
    )
    if (importance is None) != (old_logp_NT is None):
        raise UsageError(
            "`policy_gradient_loss` wants `importance` and `old_logp_NT` together: the trainer's "
            "log-probabilities stand for the sampler's only if the difference is weighed."
        )
    old_logp = sampled_logp if old_logp_NT is None else _only(mask, old_logp_NT).detach()
    cost, clipped = _cost(logp, old_logp, advantage, mask, clip)
    capped = torch.zeros_like(mask)
    if importance is not None:
        weight, capped = importance_weights(old_logp, sampled_logp, mask, importance)
        cost = weight * cost

    tokens = step.tokens if step is not None else _count(mask)
    weight_NT = _weights(mask.to(logp.dtype), normalise, step, max_tokens)
    policy = (weight_NT * cost).sum()
    total = policy
    divergence = bonus = torch.zeros((), dtype=logp.dtype, device=logp.device)
    if kl is not None:
        if kl.in_reward:
            raise UsageError(
                "A `k1` penalty belongs to the reward (`returns.charged`): in the loss it would "
                "pull nowhere."
            )
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
        log_ratio = logp - sampled_logp
        moved = _k3(log_ratio).sum() / tokens
        shares = [(flags & mask).sum() / tokens for flags in (clipped, capped)]
    return Loss(total, policy.detach(), divergence, bonus, moved, *shares)


@dataclass(frozen=True, slots=True)
class ValueLoss:
    """A critic's loss; shares of the whole step, like those of `Loss`."""

    total: Tensor
    error: Tensor
    """Mean squared error per action, detached."""
    clipped: Tensor
    """Share of actions whose value had moved further than the clip allows."""


def value_loss(
    value_NT: Tensor,
    old_value_NT: Tensor,
    return_NT: Tensor,
    action_mask_NT: Tensor,
    *,
    critic: Critic,
    normalise: Normalise = Normalise.TOKENS,
    step: StepSize | None = None,
    max_tokens: int | None = None,
) -> ValueLoss:
    """A critic's squared error, `critic.coefficient` / 2 max((V - G)^2, (clip(V) - G)^2).

    clip(V) keeps V within `critic.clip` of `old_value_NT`, what the critic said when `return_NT`
    was computed. As in PPO's reference implementation (openai/baselines, `ppo2`). `value_NT`
    carries gradients; `normalise`, `step` and `max_tokens` are as in `policy_gradient_loss`.
    """
    mask = action_mask_NT
    value, old, target = (_only(mask, v) for v in (value_NT, old_value_NT, return_NT))
    squares, moved = (value - target).square(), torch.zeros_like(mask)
    cost = squares
    if critic.clip is not None:
        near = old + (value - old).clamp(-critic.clip, critic.clip)
        cost = torch.maximum(squares, (near - target).square())
        moved = (value - old).detach().abs() > critic.clip
    weight_NT = _weights(mask.to(value.dtype), normalise, step, max_tokens)
    total = critic.coefficient / 2 * (weight_NT * cost).sum()
    tokens = step.tokens if step is not None else _count(mask)
    return ValueLoss(total, squares.sum().detach() / tokens, moved.sum() / tokens)


def kl_estimate(
    logp: Tensor, reference_logp: Tensor, estimator: Literal["k1", "k2", "k3"]
) -> Tensor:
    """Per-sample estimates of KL(policy || reference) at samples of the policy.

    With d = reference_logp - logp: k1 = -d (unbiased), k2 = d^2 / 2 (biased, low variance),
    k3 = e^d - d - 1 (unbiased, never negative). Schulman 2020, "Approximating KL divergence".
    An unbiased value need not have the divergence's gradient: see `Kl`. In k3, d counts as at most
    `MOST_K3`; beyond it there is no gradient.
    """
    d = reference_logp - logp
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return d.square() / 2
    if estimator == "k3":
        return _k3(d)
    raise UsageError(f"`kl_estimate(estimator=...)` is 'k1', 'k2' or 'k3', got {estimator!r}.")


def _k3(d: Tensor) -> Tensor:
    d = d.clamp(max=MOST_K3)
    return d.exp() - d - 1


def importance_weights(
    old_logp_NT: Tensor, sampled_logp_NT: Tensor, action_mask_NT: Tensor, importance: Importance
) -> tuple[Tensor, Tensor]:
    """Truncated importance weights `[N, T]`, 0 where there is no action, and where they were cut.

    w = min(exp(old - sampled), cap), of each token or of the sum over the sequence's actions;
    with `drop`, 0 instead of the cap. Constants: no gradient flows. IMPALA, arXiv 1802.01561,
    equation 1.
    """
    mask = action_mask_NT
    with torch.no_grad():
        log_w = _only(mask, old_logp_NT) - _only(mask, sampled_logp_NT)
        if importance.level == "sequence":
            log_w = log_w.sum(-1, keepdim=True).expand_as(log_w)
        weight = log_w.exp()
        capped = (weight > importance.cap) & mask
        cut = torch.zeros_like(weight) if importance.drop else weight.clamp(max=importance.cap)
        return _only(mask, torch.where(capped, cut, weight)), capped


def _cost(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, mask: Tensor, clip: AnyClip
) -> tuple[Tensor, Tensor]:
    """What each action costs, and where the clip did something.

    What a clip cuts off is a constant, and not a function times 0: the gradient of a ratio that has
    overflowed is infinite, and 0 times that is NaN.
    """
    log_ratio = logp - old_logp
    if isinstance(clip, DetachedClip):
        ratio = log_ratio.detach().exp()
        weight = ratio.clamp(clip.low, clip.high)
        return -weight * advantage * logp, weight != ratio
    if isinstance(clip, ProbabilityClip):
        moved = logp.detach().exp() - old_logp.exp()
        too_far = torch.where(advantage > 0, moved > clip.high, -moved > clip.low)
        too_far = too_far & (advantage != 0)
        return -_only(~too_far, log_ratio).exp() * _only(~too_far, advantage), too_far
    if clip.level == "sequence":
        lengths = mask.sum(-1, keepdim=True).clamp(min=1)
        mean = log_ratio.detach().sum(-1, keepdim=True) / lengths
        # The sequence's ratio in value, the token's own gradient: "GSPO-token", equation 14 of
        # arXiv 2507.18071. For one advantage a sequence it is GSPO; turns may also have their own.
        log_ratio = mean + log_ratio - log_ratio.detach()
    with torch.no_grad():
        ratio = log_ratio.exp()
        free, bounded = ratio * advantage, ratio.clamp(1 - clip.low, 1 + clip.high) * advantage
        gain, clipped = torch.minimum(free, bounded), bounded < free
        if clip.dual is not None:
            floor = clip.dual * advantage
            cut = (advantage < 0) & (floor > gain)
            gain, clipped = torch.where(cut, floor, gain), clipped | cut
    return torch.where(clipped, -gain, -_only(~clipped, log_ratio).exp() * advantage), clipped


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
