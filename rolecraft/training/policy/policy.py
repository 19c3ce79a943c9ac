"""What is trained, as the algorithm sees it: log-probabilities now and of the reference, values.

A policy is a module, perhaps with one adapter per role on it. Which algorithm asks is all the same
here, but for the reference and the critic that it needs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.algorithms.terms import Kl
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.adapters import Adapters
from rolecraft.training.policy.batches import Batch, Segment, micro_batches
from rolecraft.training.policy.critic import Values
from rolecraft.training.policy.sequences import TrainingSequence
from rolecraft.training.policy.sharding import put_away, shard_weights, without_weights

Tensor = torch.Tensor

SHARED = ""
"""The group of weights that all roles share, where there are no adapters."""


class Policy:
    """`module`, with one adapter per role on it if `adapters` says so. See `Trainer`."""

    def __init__(
        self,
        module: Any,
        algorithm: Algorithm,
        *,
        reference: Any = None,
        adapters: AdapterSettings | None = None,
        sharded: bool = False,
    ) -> None:
        self.algorithm = algorithm
        self.adapters = None if adapters is None else Adapters(module, adapters)
        self.module = module.eval() if self.adapters is None else self.adapters.module
        self.reference = reference
        own = algorithm.kl is not None and reference is None and self.adapters is None
        if own and not sharded:
            self.reference = copy.deepcopy(module).requires_grad_(False)
        if adapters is not None and adapters.kl and algorithm.kl and algorithm.kl.in_reward:
            raise UsageError(
                "`AdapterSettings(kl=...)` is for a penalty in the loss, and `Kl(estimator='k1')` "
                "is taken off rewards, with one coefficient for all roles. Take 'k2' or 'k3'."
            )
        if reference is not None and adapters is not None and adapters.kept_near_start:
            raise UsageError(
                "`Trainer(reference=...)` is the reference of all roles, and "
                "`AdapterSettings(reference='start')` asks for another one. Leave one of them out."
            )
        self.sharded = sharded
        """Whether each process has a share of the weights, and all have to pass through it."""
        if sharded:
            if own:  # first: it is copied part by part from weights that are whole
                self.reference = without_weights(module)
                shard_weights(self.reference, copied=module)
            self._shard(module)
        critic = algorithm.critic
        self.values = None if critic is None else Values(self.module, critic)

    def _shard(self, given: Any) -> None:
        """Divide the weights, which `given` has the memory of; adapters stay whole."""
        if self.adapters is None:
            shard_weights(self.module)
            return
        # Every process goes back through every layer, whichever of them its roles have adapters on.
        embeddings = self.module.get_input_embeddings()
        embeddings.register_forward_hook(lambda layer, args, out: out.requires_grad_(True))
        shard_weights(self.module, whole=self.adapters.parameters())
        given.to("meta")  # it would keep the whole of what is shared with it

    def group(self, role: str) -> str:
        """The group of weights that a role's loss is of."""
        return SHARED if self.adapters is None else role

    def batches(self, sequences: Sequence[TrainingSequence]) -> list[Batch]:
        """Micro-batches of all sequences that have actions."""
        most = self.algorithm.micro_batch_tokens
        return list(micro_batches(sequences, self.module, max_tokens=most))

    def routed(self, segments: Sequence[Segment]) -> AbstractContextManager[None]:
        """Within, each role's tokens go through its adapter, if there are any."""
        return nullcontext() if self.adapters is None else self.adapters.segments(segments)

    def score(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Log-probabilities, entropies and, with a critic, values before each action, `[N, A]`."""
        with self.routed(batch.segments):
            if self.values is None:
                return *batch.log_probs(self.module), None
            with self.values.watch() as hidden:
                logp_NA, entropy_NA = batch.log_probs(self.module)
            return logp_NA, entropy_NA, self.values.of(batch, hidden())

    def value(self, batch: Batch) -> Tensor:
        """The critic's values before each action, `[N, A]`. There has to be a critic."""
        assert self.values is not None
        with self.routed(batch.segments), self.values.watch() as hidden:
            batch.read(self.module)
        return self.values.of(batch, hidden())

    def kl(self, role: str) -> Kl | None:
        """The penalty for leaving the reference that is part of this role's loss."""
        kl = self.algorithm.kl
        if self.adapters is not None and role in self.adapters.settings.kl:
            coefficient = self.adapters.settings.kl[role]
            kl = Kl(coefficient, "k3" if kl is None else kl.estimator) if coefficient else None
        return None if kl is None or kl.in_reward else kl

    def reference_logp(self, batch: Batch) -> Tensor:
        """Log-probabilities by the reference, `[N, A]`.

        By default the base without adapters, or with those that roles began with.
        """
        with torch.no_grad():
            if self.reference is not None or self.adapters is None:
                logp_NA = batch.log_probs(self.reference)[0]
                put_away(self.reference)
                return logp_NA
            with self.adapters.references(batch.segments):
                return batch.log_probs(self.module)[0]

    def each(
        self, sequences: Sequence[TrainingSequence], numbers: Callable[[Batch], Tensor]
    ) -> list[list[float]]:
        """`numbers` of each action `[N, A]`, as a list for each sequence: 0 where no action is.

        So are those of a sequence that is longer than the context, which is never trained on.
        """
        found = {id(sequence): [0.0] * len(sequence.ids) for sequence in sequences}
        fitting = [s for s in sequences if s.given_length <= self.context]
        for batch in self.batches(fitting):
            with torch.no_grad():
                rows = numbers(batch).tolist()
            for sequence, row in zip(batch.sequences, rows, strict=True):
                at = [index for index, action in enumerate(sequence.action_mask) if action]
                for index, number in zip(at, row, strict=False):  # rows are padded
                    found[id(sequence)][index] = number
        put_away(self.module)
        return [found[id(sequence)] for sequence in sequences]

    @property
    def context(self) -> float:
        """Tokens that the model can read at once."""
        return getattr(self.module.config, "max_position_embeddings", None) or math.inf
