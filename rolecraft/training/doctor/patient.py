"""The model that is examined, with the adapters of its roles, and how a trainer scores for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rolecraft.models.torch_extra import torch
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.policy import Policy
from rolecraft.training.policy.sequences import TrainingSequence

LOG_PROB_LIMITS = {"float64": 1e-3, "float32": 1e-3, "bfloat16": 5e-2, "float16": 1e-2}
"""By the format of the weights, in nats: how far sampler and trainer may be apart. In bfloat16 two
ways to add up the same numbers differ by about this much."""

MUCH = 10
"""One token so many times beyond the limit is more than rounding."""

LogProbs = list[list[float]]


class Patient:
    """`model`, whose roles in `adapters` have their adapter in that folder.

    Raises `AdapterError` for a folder that is no adapter of this model.
    """

    def __init__(
        self, model: TransformersModel, adapters: Mapping[str, str | Path] | None = None
    ) -> None:
        self.model = model
        self.adapters = {role: Path(folder) for role, folder in (adapters or {}).items()}
        plain = Algorithm()
        self._base = Policy(model.module, plain)
        self._adapted = (
            Policy(model.module, plain, adapters=self.settings()) if self.adapters else None
        )

    @property
    def module(self) -> Any:
        return self.model.module

    @property
    def dtype(self) -> str:
        """The format of the weights, as torch names it."""
        return str(self.module.dtype).removeprefix("torch.")

    @property
    def limit(self) -> float:
        """How far log-probabilities may be apart, in nats."""
        return LOG_PROB_LIMITS.get(self.dtype, LOG_PROB_LIMITS["bfloat16"])

    def agrees(self, gap: float, effect: float) -> bool:
        """Whether a largest gap is rounding, next to the `effect` of what it could be without.

        Single tokens may be some way beyond the limit where it is clear which of two they are of.
        """
        return gap <= self.limit or (gap <= MUCH * self.limit and gap < effect / MUCH)

    def settings(self) -> AdapterSettings:
        """The trainer's, which go on from the folders."""
        return AdapterSettings(roles=[*self.adapters], starts=self.adapters)

    def log_probs(self, sequences: Sequence[TrainingSequence]) -> LogProbs:
        """By the trainer: each role with its adapter, if it has one. 0 where no action is."""
        return self._scored(sequences, adapted=True)

    def base_log_probs(self, sequences: Sequence[TrainingSequence]) -> LogProbs:
        """By the trainer, without any adapter."""
        return self._scored(sequences, adapted=False)

    def _scored(self, sequences: Sequence[TrainingSequence], *, adapted: bool) -> LogProbs:
        found: LogProbs = [[] for _ in sequences]
        for policy, with_adapters in ((self._base, False), (self._adapted, True)):
            if policy is None:
                continue
            mine = [
                at
                for at, sequence in enumerate(sequences)
                if (adapted and sequence.role in self.adapters) == with_adapters
            ]
            rows = score(policy, [sequences[at] for at in mine])
            for at, row in zip(mine, rows, strict=True):
                found[at] = row
        return found


def score(policy: Policy, sequences: Sequence[TrainingSequence]) -> LogProbs:
    """Log-probabilities as an update computes them, batch by batch."""
    with torch.no_grad():
        return policy.each(sequences, lambda batch: policy.score(batch)[0])


def distances(
    sequences: Sequence[TrainingSequence], one: Sequence[Sequence[float]], other: LogProbs
) -> list[list[float]]:
    """Of each sequence, how far the log-probabilities of its actions are apart, in nats."""
    return [
        [
            abs(first - second)
            for first, second, action in zip(row, others, sequence.action_mask, strict=True)
            if action
        ]
        for sequence, row, others in zip(sequences, one, other, strict=True)
    ]


def sampled(sequences: Sequence[TrainingSequence]) -> LogProbs:
    """What the sampler says that it drew each action with."""
    return [sequence.logprobs for sequence in sequences]


def largest(rows: Sequence[Sequence[float]]) -> float:
    """The largest of all; 0 if there is none, and not a number if one is none."""
    every = [number for row in rows for number in row]
    return max(every, default=0.0) if all(number == number for number in every) else float("nan")
