"""What an update did, in numbers: of all roles together and of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from rolecraft.models.torch_extra import torch
from rolecraft.training.algorithms.losses import Loss, StepSize, ValueLoss

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStats:
    """One role's part of an update. Means over its epochs, except `grad_norm` and `gap`."""

    loss: float = 0.0
    """Its share of the whole loss; with an adapter of its own, its loss."""
    entropy: float = 0.0
    """Per action, in nats."""
    moved: float = 0.0
    """Divergence of the new policy from the sampling one, per action, in nats."""
    kl: float = 0.0
    """Divergence from the reference, per action, in nats; 0 without one."""
    clipped: float = 0.0
    """Share of actions at the clip."""
    capped: float = 0.0
    """Share of actions whose importance weight was above its cap."""
    value_error: float = 0.0
    """Mean square of what the critic was wrong by, per action; 0 without one."""
    grad_norm: float = 0.0
    """Of the last epoch, before clipping: of its adapter, or of the weights that all share."""
    gap: float = 0.0
    """Largest |trainer's - sampler's| log-probability before the first step. Rounding, about 1e-6
    in float32, if the batch was sampled with the weights at hand."""
    sequences: int = 0
    actions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStats(RoleStats):
    """What one update did, all roles together: their losses add up, other numbers are of all
    actions alike, and `grad_norm` is that of all gradients as one vector."""

    skipped: tuple[str, ...] = ()
    """Names of sequences left out because of numbers that are not finite."""
    too_long: tuple[str, ...] = ()
    """Names of sequences left out because they are longer than the model's context."""
    roles: Mapping[str, RoleStats] = field(default_factory=dict)
    """Of each role that was trained."""


MEANS = ("entropy", "moved", "kl", "clipped", "capped", "value_error")
"""Numbers per action."""


@dataclass(slots=True)
class Tally:
    """One role's sums over the micro-batches of one epoch."""

    loss: float = 0.0
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEANS, 0.0))
    """Over actions."""
    gap: float = 0.0
    grad_norm: float = 0.0
    sequences: int = 0
    actions: int = 0

    def join(self, other: Tally) -> None:
        """Add what another process counted."""
        self.loss += other.loss
        self.sums = {name: total + other.sums[name] for name, total in self.sums.items()}
        self.gap = max(self.gap, other.gap)
        self.sequences += other.sequences
        self.actions += other.actions


@dataclass(slots=True)
class Measured:
    """One role's numbers of one micro-batch, still on the device: read when the epoch is over."""

    numbers: Tensor
    """The loss, the gap, then a sum over actions for each of `MEANS`."""
    sequences: int
    actions: int

    @classmethod
    def of(
        cls,
        total: Tensor,
        loss: Loss,
        value: ValueLoss | None,
        gap: Tensor,
        step: StepSize,
        mask_NA: Tensor,
    ) -> Measured:
        """`loss` and `value` are shares of `step`; `total` is what was minimised, of both."""
        shares = [loss.entropy, loss.moved, loss.kl, loss.clipped, loss.capped]
        shares.append(torch.zeros_like(loss.kl) if value is None else value.error)
        numbers = torch.stack([total, gap, *(share * step.tokens for share in shares)])
        return cls(numbers.detach(), len(mask_NA), int(mask_NA.sum()))

    def add_to(self, tally: Tally) -> None:
        loss, gap, *sums = self.numbers.tolist()
        tally.join(
            Tally(
                loss,
                dict(zip(MEANS, sums, strict=True)),
                gap,
                sequences=self.sequences,
                actions=self.actions,
            )
        )


def update_stats(
    epochs: Sequence[Mapping[str, Tally]],
    skipped: Sequence[str],
    too_long: Sequence[str],
    *,
    shared: bool,
) -> UpdateStats:
    """`epochs` are tallies by role; `shared`: all roles train the same weights."""
    left_out = UpdateStats(skipped=tuple(skipped), too_long=tuple(too_long))
    if not epochs:
        return left_out
    together = []
    for tallies in epochs:
        norms = [tally.grad_norm for tally in tallies.values()]
        whole = Tally(grad_norm=norms[0] if shared else math.hypot(*norms))
        for tally in tallies.values():
            whole.join(tally)
        together.append(whole)
    roles = {
        role: RoleStats(**_numbers([tallies[role] for tallies in epochs])) for role in epochs[0]
    }
    return replace(left_out, **_numbers(together), roles=roles)


def _numbers(epochs: Sequence[Tally]) -> dict[str, Any]:
    means = {
        name: fmean(tally.sums[name] / max(tally.actions, 1) for tally in epochs) for name in MEANS
    }
    return {
        **means,
        "loss": fmean(tally.loss for tally in epochs),
        "grad_norm": epochs[-1].grad_norm,
        "gap": epochs[0].gap,
        "sequences": epochs[0].sequences,
        "actions": epochs[0].actions,
    }
