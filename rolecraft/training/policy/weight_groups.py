"""Weights that have an optimiser of their own: a role's adapter, or a whole model.

Invariant: a group is stepped by gradients of its own loss only, clipped by their own norm. Another
group's batch changes none of its bytes, nor what its optimiser remembers.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.policy.master_weights import MasterWeights
from rolecraft.training.policy.sharding import part_of, sharded_state, whole, whole_state


class WeightGroup:
    """`weights` and their Adam. Weights below float32 are stepped on float32 copies."""

    def __init__(self, weights: Sequence[torch.Tensor], learning_rate: float) -> None:
        self.weights = list(weights)
        self._masters = MasterWeights(self.weights)
        self.optimizer = torch.optim.Adam(self._masters.masters, lr=learning_rate)

    @property
    def masters(self) -> list[torch.Tensor]:
        """What is stepped: of float32 at least."""
        return self._masters.masters

    def read(self) -> None:
        """Follow weights that somebody else has changed since."""
        self._masters.read()

    def clear(self) -> None:
        """Forget gradients."""
        self.optimizer.zero_grad()
        for weight in self.weights:
            weight.grad = None

    def take_gradients(self) -> None:
        """After a backward pass: what it added counts, in float32."""
        self._masters.take_gradients()

    def clip(self, most: float) -> float:
        """The gradient's norm, which is at most `most` afterwards."""
        return float(whole(torch.nn.utils.clip_grad_norm_(self.masters, most)))

    def step(self) -> None:
        """One step of the optimiser."""
        self.optimizer.step()
        self._masters.write_back()

    def state(self) -> dict[str, Any]:
        """Whole copies of weights and optimiser, for `torch.save`."""
        return {
            "weights": [whole(weight.detach()).clone() for weight in self.masters],
            "optimizer": copy.deepcopy(whole_state(self.optimizer.state_dict())),
        }

    def load_state(self, state: dict[str, Any], name: str) -> None:
        """What `state` gave. Raises `UsageError` if it is of other weights; `name` is for that."""
        found = [tuple(weight.shape) for weight in state["weights"]]
        if found != [tuple(weight.shape) for weight in self.masters]:
            raise UsageError(
                f"The state of {name} is of {len(found)} tensors with other shapes than the "
                f"{len(self.masters)} that are trained here. Make the trainer with the model and "
                f"the settings that it was saved with."
            )
        with torch.no_grad():
            for weight, saved in zip(self.masters, state["weights"], strict=True):
                weight.copy_(part_of(saved, weight))
        self._masters.write_back()
        mine = sharded_state(copy.deepcopy(state["optimizer"]), self.masters)
        self.optimizer.load_state_dict(mine)
