"""How well a reward predicts labels: those that no fit has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rolecraft.rewards.learned._torch import torch
from rolecraft.rewards.learned.feedback import Label, Preference
from rolecraft.rewards.learned.fitting import label_tensors, negative_log_likelihood
from rolecraft.rewards.learned.learned_reward import LearnedReward


@dataclass(frozen=True, slots=True)
class Examination:
    """What a reward says of labels, in the mean over its members' probabilities."""

    labels: int
    nats: float
    """Mean negative log-likelihood; a guess among two costs 0.69."""
    agreement: float | None
    """Share of pairs whose preferred run has the higher value; None without such pairs."""

    def record(self) -> dict[str, Any]:
        return asdict(self)


def examine(reward: LearnedReward, labels: Sequence[Label]) -> Examination:
    """Compare a reward with labels, none of which says "skip"."""
    if not labels:
        return Examination(0, 0.0, None)
    with torch.no_grad():
        each = negative_log_likelihood(
            reward.weights, reward.settings, label_tensors(reward, labels)
        )
    log_EL = -torch.cat(each, dim=1)
    nats = -(torch.logsumexp(log_EL, 0) - torch.tensor(float(len(log_EL))).log()).mean()
    return Examination(len(labels), float(nats), _agreement(reward, labels))


def _agreement(reward: LearnedReward, labels: Sequence[Label]) -> float | None:
    pairs = [x for x in labels if isinstance(x, Preference) and x.answer in "ab"]
    if not pairs:
        return None
    first = reward.values([pair.a for pair in pairs])
    second = reward.values([pair.b for pair in pairs])
    right = 0.0
    for pair, a, b in zip(pairs, first, second, strict=True):
        right += 0.5 if a == b else float((a > b) == (pair.answer == "a"))
    return right / len(pairs)
