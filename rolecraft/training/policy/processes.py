"""Several processes that train one policy: each its share of the sequences, one gradient.

Invariant: every process calls `update` with the same sequences and ends with the same weights.
Losses are divided by sizes of the whole step, so that gradients are added, never averaged; how
many processes there are changes nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from rolecraft.models.torch_extra import torch
from rolecraft.training.policy.sharding import is_sharded

Thing = TypeVar("Thing")


class Processes:
    """The processes of torch's default group; this one alone where there is none.

    Whoever starts them makes the group: `accelerate launch`, `torchrun`, or
    `torch.distributed.init_process_group`.
    """

    def __init__(self) -> None:
        grouped = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank = torch.distributed.get_rank() if grouped else 0
        self.count = torch.distributed.get_world_size() if grouped else 1

    def share(self, things: Sequence[Thing], lengths: Sequence[int]) -> list[Thing]:
        """This process's part: every so-manieth, by length, so that all have much the same to do.

        In the order given.
        """
        if self.count == 1:
            return list(things)
        order = sorted(range(len(things)), key=lambda index: (-lengths[index], index))
        return [things[index] for index in sorted(order[self.rank :: self.count])]

    def gather(self, thing: Thing) -> list[Thing]:
        """What each process has, by rank. Everything is pickled: small things only."""
        if self.count == 1:
            return [thing]
        found: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(found, thing)
        return found

    def add_gradients(self, weights: Sequence[torch.Tensor]) -> None:
        """Let every process have the sum of all gradients; none counts as 0.

        Those of shards are added up by the backward pass already.
        """
        weights = [weight for weight in weights if not is_sharded(weight)]
        if self.count == 1 or not weights:
            return
        for weight in weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        # One message for all: there are hundreds of small matrices.
        flat = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
        torch.distributed.all_reduce(flat)
        parts = torch.split(flat, [weight.numel() for weight in weights])
        for weight, part in zip(weights, parts, strict=True):
            weight.grad = part.view_as(weight)
