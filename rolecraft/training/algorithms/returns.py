"""What followed an action: pure functions of per-token lists, without torch.

T tokens of one role's attempt, in the order in which they were sampled and given (several
sequences of it are joined first). `action_mask` is True at tokens that the policy chose; whatever
else stands between them, tool results above all, neither is credited nor takes time: discounts
count actions. So inserting given tokens anywhere changes nothing at actions.

A reward stands at the action that earned it. One at a later token that is no action is the last
action's before it; one before the first action reaches none. Results are 0 where there is no
action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.terms import Kl, Overlong


def token_returns(
    rewards: Sequence[float], action_mask: Sequence[bool], *, gamma: float = 1.0
) -> list[float]:
    """Discounted returns `[T]`: G_t = r_t + gamma G_(next action). REINFORCE++, 2501.03262."""
    _same_length(rewards, action_mask)
    result = [0.0] * len(rewards)
    since = later = 0.0
    for t in reversed(range(len(rewards))):
        since += rewards[t]
        if action_mask[t]:
            result[t] = later = since + gamma * later
            since = 0.0
    return result


class Gae(NamedTuple):
    """Generalised advantage estimates of an attempt, per token."""

    advantages: list[float]
    returns: list[float]
    """What the critic should have said: advantage + value."""


def gae(
    rewards: Sequence[float],
    values: Sequence[float],
    action_mask: Sequence[bool],
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    bootstrap: float = 0.0,
) -> Gae:
    """Generalised advantage estimation (arXiv 1506.02438, equation 16) over actions.

    delta_t = r_t + gamma V_(next action) - V_t, and A_t = delta_t + gamma lam A_(next action).
    `values[t]` is what the critic says of the state in which token t was chosen; those of other
    tokens are not looked at. `bootstrap` is the value of the state in which the attempt was cut
    off; 0 if it ended.
    """
    _same_length(rewards, action_mask, values)
    result = Gae([0.0] * len(rewards), [0.0] * len(rewards))
    since, later, next_value = 0.0, 0.0, bootstrap
    for t in reversed(range(len(rewards))):
        since += rewards[t]
        if action_mask[t]:
            later = since + gamma * next_value - values[t] + gamma * lam * later
            result.advantages[t] = later
            result.returns[t] = later + values[t]
            since, next_value = 0.0, values[t]
    return result


def charged(
    rewards: Sequence[float],
    logps: Sequence[float],
    reference_logps: Sequence[float],
    action_mask: Sequence[bool],
    *,
    kl: Kl,
) -> list[float]:
    """Rewards `[T]` less `coefficient` (log pi - log pi_ref) at each action: the `k1` penalty.

    `logps` are those with which the actions were sampled. InstructGPT, arXiv 2203.02155, equation
    2. Algorithms that compare whole attempts take the sum. Raises `UsageError` for an estimator
    that belongs in the loss: as rewards, k2 and k3 would pull by the gradient of nothing known.
    """
    _same_length(rewards, action_mask, logps, reference_logps)
    if not kl.in_reward:
        raise UsageError(
            f"`Kl(estimator={kl.estimator!r})` belongs to the loss; only 'k1' is taken off rewards."
        )
    return [
        reward - kl.coefficient * (logp - reference) if action else reward
        for reward, logp, reference, action in zip(
            rewards, logps, reference_logps, action_mask, strict=True
        )
    ]


def soft_overlong(actions: int, overlong: Overlong) -> float:
    """What an attempt of so many action tokens loses: from 0 to -1. DAPO, 2503.14476, eq. 13."""
    excess = actions - (overlong.length - overlong.cache)
    return -min(max(excess / overlong.cache, 0.0), 1.0)


def _same_length(rewards: Sequence[float], *others: Sequence[float]) -> None:
    lengths = [len(rewards), *map(len, others)]
    if len(set(lengths)) > 1:
        raise UsageError(
            f"Rewards, masks and values of an attempt have one entry a token, got lengths "
            f"{', '.join(map(str, lengths))}."
        )
