"""The net: a weighted sum of standardised signals, and a small residual. All members at once.

    r(z, g) = sum over k of softplus(a_k + V_k g) sign_k z_k  +  R(z, g) - R(0, g)
    R(z, g) = bound * tanh(c h(z, g) / sqrt(H))

`z_k` are standardised signals, `g` the embedded goal, `h` hidden units. The promise of a
`Direction` holds by construction: its weight is a softplus, and every weight on its way through
the residual is positive, so no value that training can give the parameters breaks it.

A missing signal counts as the worst there is (`-limit` standard deviations), and the residual is
told that it is missing through a feature that may only lower it. Without a promise the worst is on
the side that the weight says, less all that the residual could make of it. So hiding a measurement
never pays.

Suffixes: E members, B runs, K names, G numbers of a goal, H hidden units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64
from rolecraft.rewards.learned._torch import torch
from rolecraft.rewards.learned.directions import Direction

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class NetSettings:
    """The shape of a net. `seed` makes its prior: where each member starts, and is drawn back to.

    `limit`: standard deviations at which a signal is cut off. `residual`: the bound of `R`, in the
    unit of the reward (log-odds of a preference).
    """

    directions: tuple[Direction, ...]
    goal_size: int = 16
    members: int = 5
    hidden: int = 8
    residual: float = 1.0
    limit: float = 4.0
    seed: int = 0

    def __post_init__(self) -> None:
        names = [direction.name for direction in self.directions]
        if not names:
            raise UsageError("A learned reward needs at least one signal to look at.")
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"`directions` has {twice[0]!r} twice.")
        if self.members < 2:
            raise UsageError(f"`members={self.members!r}`: one alone never disagrees. Take 5.")
        if self.hidden < 1 or self.residual < 0 or self.limit <= 0:
            raise UsageError("`hidden` is at least 1, `residual` at least 0, `limit` above 0.")


PRIOR: dict[str, tuple[float, float]] = {
    "weight": (0.0, 1.0),  # a: softplus(0) = 0.69 log-odds a standard deviation
    "goal": (0.0, 0.5),  # V: what a goal changes in `a`
    "seen": (0.0, 0.5),  # residual: standardised signals; through a softplus where promised
    "present": (-1.0, 0.5),  # residual: whether each was measured, likewise
    "wish": (0.0, 0.5),  # residual: the goal
    "bias": (0.0, 1.0),
    "out": (-1.0, 0.5),  # residual: its hidden units, through a softplus
    "cuts": (0.0, 1.0),  # cumulative logit: the lowest threshold, and three gaps by softplus
    "scale": (0.5, 0.5),  # cumulative logit: of the reward, through a softplus
}
"""Mean and standard deviation of each parameter before any feedback."""


def prior(settings: NetSettings) -> dict[str, Tensor]:
    """A draw from the prior for each member (float64); the same for the same settings."""
    e, k, h = settings.members, len(settings.directions), settings.hidden
    g = settings.goal_size
    shapes = {
        "weight": (e, k),
        "goal": (e, k, g),
        "seen": (e, k, h),
        "present": (e, k, h),
        "wish": (e, g, h),
        "bias": (e, h),
        "out": (e, h),
        "cuts": (e, 4),
        "scale": (e,),
    }
    draws = {}
    for name, (mean, std) in PRIOR.items():
        generator = torch.Generator().manual_seed(hash64("prior", name, settings.seed) >> 1)
        noise = torch.randn(shapes[name], generator=generator, dtype=torch.float64)
        draws[name] = mean + std * noise
    draws["cuts"][:, 0] -= 2.0
    return draws


@dataclass(frozen=True, slots=True)
class Inputs:
    """Runs as a net takes them. `x_BK` is signed: higher is better where a direction is promised.

    Where a signal is missing `present_BK` is 0; `x_BK` is then `-limit`, or 0 without a promise.
    """

    x_BK: Tensor
    present_BK: Tensor
    goal_BG: Tensor

    def __getitem__(self, rows: Tensor | Sequence[int]) -> Inputs:
        return Inputs(self.x_BK[rows], self.present_BK[rows], self.goal_BG[rows])

    def __len__(self) -> int:
        return len(self.x_BK)


@dataclass(frozen=True, slots=True)
class Estimates:
    """What each member says of each run."""

    signals_EBK: Tensor
    residual_EB: Tensor

    @property
    def total_EB(self) -> Tensor:
        return self.signals_EBK.sum(2) + self.residual_EB


def estimate(weights: dict[str, Tensor], settings: NetSettings, inputs: Inputs) -> Estimates:
    """The members' estimates of runs; differentiable in `weights`."""
    promised_K = torch.tensor([direction.promised for direction in settings.directions])
    x_BK, present_BK, goal_BG = inputs.x_BK, inputs.present_BK, inputs.goal_BG
    raw_EBK = weights["weight"][:, None] + torch.einsum("bg,ekg->ebk", goal_BG, weights["goal"])
    weight_EBK = torch.where(promised_K, _softplus(raw_EBK), raw_EBK)
    # Without a promise either sign may be the better one, and the residual may see it either way.
    worst_EBK = -settings.limit * weight_EBK.abs() - 2 * settings.residual * ~promised_K
    signals_EBK = torch.where(present_BK > 0, weight_EBK * x_BK, worst_EBK)

    # What an average run is worth no comparison tells, so each member calls it 0: their differences
    # are then about what sets a run apart, and pessimism is about nothing else.
    average = (torch.zeros_like(x_BK), torch.ones_like(present_BK))
    residual_EB = _residual(weights, settings, promised_K, inputs)
    residual_EB = residual_EB - _residual(weights, settings, promised_K, Inputs(*average, goal_BG))
    return Estimates(signals_EBK, residual_EB)


def _residual(
    weights: dict[str, Tensor], settings: NetSettings, promised_K: Tensor, inputs: Inputs
) -> Tensor:
    """Of each member and run, [E, B], between `-settings.residual` and `settings.residual`."""
    into_EKH = torch.where(promised_K[:, None], _softplus(weights["seen"] - 1), weights["seen"])
    hidden_EBH = torch.tanh(
        torch.einsum("bk,ekh->ebh", inputs.x_BK, into_EKH)
        + torch.einsum("bk,ekh->ebh", inputs.present_BK - 1, _softplus(weights["present"]))
        + torch.einsum("bg,egh->ebh", inputs.goal_BG, weights["wish"])
        + weights["bias"][:, None]
    )
    out_EB = torch.einsum("ebh,eh->eb", hidden_EBH, _softplus(weights["out"]))
    return settings.residual * torch.tanh(out_EB / settings.hidden**0.5)


def cuts(weights: dict[str, Tensor]) -> Tensor:
    """The thresholds between the 5 degrees of satisfaction, rising; of each member, [E, 4]."""
    low_E1, gaps_E3 = weights["cuts"][:, :1], _softplus(weights["cuts"][:, 1:]) + 1e-3
    return torch.cat([low_E1, low_E1 + gaps_E3.cumsum(1)], dim=1)


def scale(weights: dict[str, Tensor]) -> Tensor:
    """How far satisfaction follows the reward, of each member, [E]; above 0."""
    return _softplus(weights["scale"])


def _softplus(x: Tensor) -> Tensor:
    return torch.nn.functional.softplus(x)
