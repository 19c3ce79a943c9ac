"""Fitting the net to labels: a posterior sample of each member, by optimisation.

Preferences follow Bradley and Terry (1952): P(a preferred to b) = sigmoid(r(a) - r(b)); "equal" is
half of either. Satisfaction follows a cumulative logit (McCullagh 1980): P(y <= j) =
sigmoid(cut_j - s r). Each member starts from a draw of the prior and is drawn back to that draw,
and weighs the labels by chance (randomised maximum a posteriori; Pearce et al., arXiv 1810.05546):
members agree where labels decide, and differ as much as the prior where none do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rolecraft.models.hashing import hash64
from rolecraft.rewards.learned._torch import torch
from rolecraft.rewards.learned.feedback import Label, Preference, Rating
from rolecraft.rewards.learned.learned_reward import LearnedReward
from rolecraft.rewards.learned.net import PRIOR, Inputs, NetSettings, cuts, estimate, prior, scale

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 200
"""L-BFGS iterations at most; it mostly ends far earlier."""

Weights = dict[str, "Tensor"]


@dataclass(frozen=True, slots=True)
class LabelTensors:
    """Labels as tensors: P preferences, S ratings. `runs` are those that both point into."""

    runs: Inputs
    a_P: Tensor
    b_P: Tensor
    preferred_P: Tensor
    """1 for a, 0 for b, one half for "equal"."""
    run_S: Tensor
    degree_S: Tensor
    """0 to 4."""


def label_tensors(reward: LearnedReward, labels: Sequence[Label]) -> LabelTensors:
    """The labels as the net of `reward` takes them; none of them says "skip"."""
    pairs = [label for label in labels if isinstance(label, Preference)]
    ratings = [label for label in labels if isinstance(label, Rating)]
    runs = [run for pair in pairs for run in (pair.a, pair.b)] + [each.run for each in ratings]
    said = [{"a": 1.0, "b": 0.0, "equal": 0.5}[pair.answer] for pair in pairs]
    count = len(pairs)
    return LabelTensors(
        runs=reward.inputs(runs),
        a_P=torch.arange(0, 2 * count, 2),
        b_P=torch.arange(0, 2 * count, 2) + 1,
        preferred_P=torch.tensor(said, dtype=torch.float64),
        run_S=torch.arange(2 * count, len(runs)),
        degree_S=torch.tensor([each.satisfaction - 1 for each in ratings], dtype=torch.long),
    )


def negative_log_likelihood(
    weights: Weights, settings: NetSettings, labels: LabelTensors
) -> tuple[Tensor, Tensor]:
    """Of each preference [E, P] and each rating [E, S], in nats."""
    total_EB = estimate(weights, settings, labels.runs).total_EB
    margin_EP = total_EB[:, labels.a_P] - total_EB[:, labels.b_P]
    preference_EP = torch.nn.functional.softplus(margin_EP) - labels.preferred_P * margin_EP
    return preference_EP, -_log_degree(
        cuts(weights), scale(weights)[:, None] * total_EB[:, labels.run_S], labels.degree_S
    )


def _log_degree(cuts_E4: Tensor, score_ES: Tensor, degree_S: Tensor) -> Tensor:
    """log P(y = degree): log of sigmoid(upper) - sigmoid(lower), the outer edges infinite.

    As log sigmoid(upper) + log sigmoid(-lower) + log(1 - exp(lower - upper)), which never loses
    the difference of two numbers near 1.
    """
    if not degree_S.numel():
        return score_ES
    end_E1 = torch.full((len(cuts_E4), 1), 1e3, dtype=torch.float64)
    edges_E6 = torch.cat([-end_E1, cuts_E4, end_E1], dim=1)
    upper_ES, lower_ES = edges_E6[:, degree_S + 1], edges_E6[:, degree_S]
    log_sigmoid = torch.nn.functional.logsigmoid
    between_ES = torch.log1p(-torch.exp(lower_ES - upper_ES))
    return log_sigmoid(upper_ES - score_ES) + log_sigmoid(score_ES - lower_ES) + between_ES


def fit(reward: LearnedReward, labels: Sequence[Label], *, seed: int = 0) -> LearnedReward:
    """`reward` fitted to all of `labels`; the same for the same arguments.

    The statistics and the shape stay. Deterministic; it takes tens of milliseconds.
    """
    settings = reward.settings
    anchors = prior(settings)
    tensors = label_tensors(reward, labels)
    weigh = torch.Generator().manual_seed(hash64("labels", seed, settings.seed) >> 1)
    shape = (settings.members, len(labels))
    chance_EL = torch.empty(shape, dtype=torch.float64).exponential_(generator=weigh)
    pairs = len(tensors.a_P)
    chance_EP, chance_ES = chance_EL[:, :pairs], chance_EL[:, pairs:]
    weights = {name: each.clone().requires_grad_() for name, each in anchors.items()}
    optimiser = torch.optim.LBFGS(
        list(weights.values()),
        max_iter=STEPS,
        tolerance_grad=1e-6,
        tolerance_change=1e-9,
        line_search_fn="strong_wolfe",
    )

    def cost() -> Tensor:
        optimiser.zero_grad()
        preference_EP, rating_ES = negative_log_likelihood(weights, settings, tensors)
        loss: Tensor = (chance_EP * preference_EP).sum() + (chance_ES * rating_ES).sum()
        for name, weight in weights.items():
            loss = loss + 0.5 * (((weight - anchors[name]) / PRIOR[name][1]) ** 2).sum()
        torch.autograd.backward(loss)
        return loss

    step: Any = optimiser.step
    step(cost)
    return replace(
        reward,
        weights={name: weight.detach() for name, weight in weights.items()},
        fits=reward.fits + 1,
    )


def between(old: LearnedReward, new: LearnedReward, share: float) -> LearnedReward:
    """The reward with weights at `share` of the way from `old` to `new`."""
    weights = {
        name: torch.lerp(old.weights[name], new.weights[name], share) for name in new.weights
    }
    return replace(new, weights=weights)
