"""Mean minus standard deviation, made safe to climb.

The plain `mean - std` of an ensemble can *fall* when one member's estimate rises: it moves the
members apart faster than it moves their mean. A reward built on it would break the promise that
more of a good signal never costs, though every member keeps it. So here a member's optimism counts
only up to one standard deviation above the mean:

    value(r) = max over c of  mean(min(r, c)) - std(min(r, c))

`mean - std` is concave, so this is its largest value over all estimates that are nowhere above `r`
(at the maximum a member is either at its own estimate or, where `(r_e - mean) / std > 1`, at
`c = mean + std`). A supremum over a box never falls when the box grows: the value is monotone in
every member. It equals `mean - std` (population) unless a member is above `mean + std`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def pessimistic(values_EB: Tensor) -> Tensor:
    """The value of B runs from the estimates of E members; at most the mean, never more."""
    from rolecraft.rewards.learned._torch import torch

    members = len(values_EB)
    sorted_EB = values_EB.sort(dim=0).values
    low_B = sorted_EB[0]
    sorted_EB = sorted_EB - low_B  # differences are exact where all agree
    best_B = _mean_minus_std(sorted_EB)
    # With `above` members at c, c = mean + std is a quadratic. No more than half can be above.
    for above in range(1, (members + 1) // 2):
        share = above / members
        below_EB = sorted_EB[: members - above]
        mean_B, square_B = below_EB.sum(0) / members, (below_EB**2).sum(0) / members
        a = (1 - share) * (1 - 2 * share)
        b_B, c_B = -2 * (1 - 2 * share) * mean_B, 2 * mean_B**2 - square_B
        root_B = (-b_B + (b_B**2 - 4 * a * c_B).clamp(min=0).sqrt()) / (2 * a)
        best_B = torch.maximum(best_B, _mean_minus_std(torch.minimum(sorted_EB, root_B)))
    return best_B + low_B


def _mean_minus_std(values_EB: Tensor) -> Tensor:
    return values_EB.mean(0) - values_EB.std(0, correction=0)
