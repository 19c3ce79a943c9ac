"""Full-precision copies of weights that are kept in fewer bits.

An optimiser's step is tiny next to a weight: at a learning rate of 1e-6, a weight of 0.05 in
bfloat16, whose neighbours are 0.0002 away, would round back to where it was, step after step.
Steps are therefore taken on float32 copies ("master weights": Micikevicius et al. 2018, Mixed
precision training, arXiv 1710.03740), which keep what the model's own weights cannot show yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.models.torch_extra import torch


class MasterWeights:
    """`masters` are what to optimise: for each of `weights` a float32 copy, or the weight itself.

    A weight of float32 or more is its own master. After each backward pass, call `take_gradients`;
    after each step of the optimiser, `write_back`.
    """

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        self.masters = [
            weight if torch.finfo(weight.dtype).bits >= 32 else weight.detach().float()
            for weight in weights
        ]
        self._pairs = [
            (weight, master)
            for weight, master in zip(weights, self.masters, strict=True)
            if weight is not master
        ]

    def read(self) -> None:
        """Follow weights that somebody else has changed since, such as by loading others."""
        for weight, master in self._pairs:
            changed = weight.detach() != master.to(weight.dtype)
            master.copy_(torch.where(changed, weight.detach().to(master.dtype), master))

    def take_gradients(self) -> None:
        """Move the weights' gradients to the masters, where they add up in float32."""
        for weight, master in self._pairs:
            if weight.grad is None:
                continue
            gradient = weight.grad.to(master.dtype)
            master.grad = gradient if master.grad is None else master.grad.add_(gradient)
            weight.grad = None

    @torch.no_grad()
    def write_back(self) -> None:
        """Round the masters into the weights."""
        for weight, master in self._pairs:
            weight.copy_(master)
