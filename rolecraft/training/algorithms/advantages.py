"""How much better than its group an episode went: pure functions of rewards.

A group is a set of attempts at the same task by the same role. An attempt's advantage is its
reward against the others'. Where the group says nothing (one attempt, or all equal) it is exactly
0, so that rounding never becomes a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from statistics import fmean
from typing import Literal

from rolecraft.errors import UnknownName, UsageError

AdvantageName = Literal["grpo", "dr_grpo", "rloo", "maxrl", "returns", "gae"]
"""`returns` and `gae` compare no group: see `returns.py`."""


def grpo(rewards: Sequence[float], *, eps: float = 1e-4) -> list[float]:
    """(R - mean) / (std + eps), with the unbiased std: GRPO (arXiv 2402.03300).

    `eps` is 1e-4 in TRL, 1e-6 in verl and SkyRL.
    """
    centred = dr_grpo(rewards)
    if not any(centred):
        return centred
    std = (sum(value * value for value in centred) / (len(rewards) - 1)) ** 0.5
    return [value / (std + eps) for value in centred]


def dr_grpo(rewards: Sequence[float]) -> list[float]:
    """R - mean: Dr. GRPO (arXiv 2503.20783). Hard and easy tasks keep their size."""
    if len(set(rewards)) <= 1:
        return [0.0] * len(rewards)
    mean = fmean(rewards)
    return [reward - mean for reward in rewards]


def rloo(rewards: Sequence[float]) -> list[float]:
    """R - mean of the *other* attempts: REINFORCE leave-one-out (arXiv 2402.14740)."""
    size = len(rewards)
    return [value * size / (size - 1) if value else 0.0 for value in dr_grpo(rewards)]


def maxrl(rewards: Sequence[float], *, eps: float = 1e-6) -> list[float]:
    """(R - mean) / (mean + eps): MaxRL (arXiv 2602.02710). Rewards must not be negative.

    For rewards of 0 and 1 and a group of G, the expected gradient is that of the log-likelihood of
    success, log p = -sum over k of (1 - p)^k / k, cut off after G - 1 terms: rarely solved tasks
    weigh more. Raises `UsageError` for a negative reward, with which the divisor means nothing.
    """
    if any(reward < 0 for reward in rewards):
        raise UsageError(
            f"`maxrl` divides by the mean reward of a group and wants rewards from 0, got "
            f"{min(rewards)!r}."
        )
    centred = dr_grpo(rewards)
    if not any(centred):
        return centred
    mean = fmean(rewards)
    return [value / (mean + eps) for value in centred]


ADVANTAGES: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "maxrl": maxrl,
}


def group_advantages(
    rewards: Sequence[float], groups: Sequence[Hashable], *, kind: AdvantageName = "grpo"
) -> list[float]:
    """The advantage of each reward within its group, in the order of `rewards`.

    `groups[i]` names the group of `rewards[i]`. Rewards are finite.
    """
    if kind not in ADVANTAGES:
        raise UnknownName("Advantage", kind, ADVANTAGES)
    if len(rewards) != len(groups):
        raise UsageError(
            f"Each reward needs a group: got {len(rewards)} rewards and {len(groups)} groups."
        )
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    result = [0.0] * len(rewards)
    for indexes in members.values():
        inside = ADVANTAGES[kind]([rewards[index] for index in indexes])
        for index, advantage in zip(indexes, inside, strict=True):
            result[index] = advantage
    return result
