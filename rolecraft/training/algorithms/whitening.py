"""Advantages brought to unit spread over a batch: a pure function of lists, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from rolecraft.errors import UsageError


def whiten(
    advantages: Sequence[Sequence[float]],
    action_masks: Sequence[Sequence[bool]],
    *,
    centre: bool,
    eps: float = 1e-8,
) -> list[list[float]]:
    """`advantages` of N sequences over their spread among all actions of the batch.

    With `centre`, (A - mean) / std: REINFORCE++ (arXiv 2501.03262, equation 10) and PPO, whose
    returns have no baseline of their own task. Without, A / std: for advantages that are centred
    in their groups already (REINFORCE++-baseline), so that a group that said nothing still says
    exactly nothing. Mean and std (unbiased) are over actions, each counted once, so that long
    attempts weigh more. Sums are exact: neither order nor anything at other tokens matters. Where
    all actions have the same advantage, and at tokens that are no actions, the result is 0.
    """
    if [len(row) for row in advantages] != [len(row) for row in action_masks]:
        raise UsageError("`whiten` wants advantages and masks of the same lengths.")
    actions = [
        value
        for row, mask in zip(advantages, action_masks, strict=True)
        for value, action in zip(row, mask, strict=True)
        if action
    ]
    if len(set(actions)) <= 1:
        return [[0.0] * len(row) for row in advantages]
    mean = fsum(actions) / len(actions)
    variance = fsum((value - mean) ** 2 for value in actions) / (len(actions) - 1)
    std, shift = (variance + eps) ** 0.5, mean if centre else 0.0
    return [
        [(value - shift) / std if action else 0.0 for value, action in zip(row, mask, strict=True)]
        for row, mask in zip(advantages, action_masks, strict=True)
    ]
