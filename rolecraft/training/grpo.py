"""GRPO and its family: from scored token sequences to better weights.

    for each epoch:
        loss = sum over micro-batches of policy_gradient_loss(new log-probs, recorded ones, …)
        one optimiser step

That is all. What makes one algorithm differ from another is in the settings: how rewards become
advantages (`advantages.py`), how ratios are clipped and sums normalised (`losses.py`). The
log-probabilities recorded by the sampler serve as those of the old policy, so no extra pass is
needed, and stale samples are weighed by their true ratio.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.models._torch import torch
from rolecraft.training.advantages import ADVANTAGES, AdvantageName
from rolecraft.training.batches import Batch, micro_batches
from rolecraft.training.losses import (
    CLIP_HIGHER,
    Clip,
    DetachedClip,
    Kl,
    Loss,
    Normalise,
    StepSize,
    policy_gradient_loss,
)
from rolecraft.training.master_weights import MasterWeights
from rolecraft.training.sequences import TrainingSequence, actions

SPOILT_UPDATES = 3
"""After so many updates in a row that had to leave something out, training stops with an error."""


class TrainingDiverged(RolecraftError):
    """Numbers that are not finite spoilt several updates in a row.

    Attribute `skipped`: names of the sequences that were left out of the last one.
    """

    def __init__(self, skipped: Sequence[str], reason: str = "") -> None:
        self.skipped = tuple(skipped)
        named = f"Left out last: {_listed(self.skipped)}. " if self.skipped else ""
        super().__init__(
            f"{SPOILT_UPDATES} updates in a row met numbers that are not finite. {named}"
            f"{reason + '. ' if reason else ''}Look at the rewards and log-probabilities; "
            f"if they are sound, the weights are not: go back to the last good ones "
            f"with a lower `learning_rate`."
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPO:
    """Group-relative policy optimisation. The defaults suit fine-tuning of a pretrained model.

    `group` attempts at each task are compared with each other; `advantage` says how (`grpo`,
    `dr_grpo`, `rloo`). Each update takes `epochs` optimiser steps (Adam, constant
    `learning_rate`) over the whole batch, with gradients clipped to norm `max_grad_norm`.
    `entropy` is a bonus per nat and action. `kl` adds a penalty for leaving the initial weights.
    `micro_batch_tokens` bounds the padded tokens of one forward pass (memory, never results).
    """

    group: int = 8
    advantage: AdvantageName = "grpo"
    clip: Clip | DetachedClip = CLIP_HIGHER
    normalise: Normalise = Normalise.TOKENS
    max_tokens: int | None = None
    """Constant length of `Normalise.MAX_TOKENS`: the longest answer, in action tokens."""
    epochs: int = 1
    learning_rate: float = 1e-6
    max_grad_norm: float = 1.0
    entropy: float = 0.0
    kl: Kl | None = None
    micro_batch_tokens: int = 8192

    def __post_init__(self) -> None:
        for name, least in (("group", 2), ("epochs", 1), ("micro_batch_tokens", 1)):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= least):
                raise UsageError(
                    f"`GRPO({name}=...)` wants a whole number from {least}, got {value!r}."
                )
        for name in ("learning_rate", "max_grad_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(
                    f"`GRPO({name}=...)` wants a number above 0, got {getattr(self, name)!r}."
                )
        if not 0 <= self.entropy < math.inf:
            raise UsageError(f"`GRPO(entropy=...)` wants a number from 0, got {self.entropy!r}.")
        if self.advantage not in ADVANTAGES:
            raise UsageError(
                f"`GRPO(advantage=...)` is one of {sorted(ADVANTAGES)}, got {self.advantage!r}."
            )
        if (self.normalise is Normalise.MAX_TOKENS) != (self.max_tokens is not None):
            raise UsageError(
                "`Normalise.MAX_TOKENS` and `GRPO(max_tokens=...)` belong together: give both, or "
                "neither."
            )
        if self.normalise is Normalise.MICRO_BATCH:
            raise UsageError(
                "`Normalise.MICRO_BATCH` makes the result depend on how a step is split into "
                "micro-batches. Train with `Normalise.TOKENS`."
            )


FROM_SCRATCH = GRPO(group=16, advantage="dr_grpo", epochs=4, learning_rate=1e-3, entropy=0.01)
"""For tiny models that start from random weights: large steps, several per batch, and an entropy
bonus that keeps them from settling early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStats:
    """What one update did. Means over its epochs, except `grad_norm` and `gap`."""

    loss: float = 0.0
    entropy: float = 0.0
    """Per action, in nats."""
    moved: float = 0.0
    """Divergence of the new policy from the sampling one, per action, in nats."""
    kl: float = 0.0
    """Divergence from the reference, per action, in nats; 0 without one."""
    clipped: float = 0.0
    """Share of actions at the clip."""
    grad_norm: float = 0.0
    """Of the last epoch, before clipping."""
    gap: float = 0.0
    """Largest |trainer's - sampler's| log-probability before the first step. Rounding, about 1e-6
    in float32, if the batch was sampled with the weights at hand."""
    sequences: int = 0
    actions: int = 0
    skipped: tuple[str, ...] = ()
    """Names of sequences left out because of numbers that are not finite."""


class Trainer:
    """Updates the weights of `module`, a causal language model of transformers, in place.

    `reference` is what `GRPO(kl=...)` keeps the policy near; by default a copy of the weights as
    they are now. Dropout stays off, so that trainer and sampler see one policy. Weights below
    float32 (bfloat16, as many checkpoints are) are trained on float32 copies and rounded into the
    model after each step, which takes twelve further bytes a weight (float32: eight).
    """

    def __init__(self, module: Any, algorithm: GRPO, *, reference: Any = None) -> None:
        self.module = module.eval()
        self.algorithm = algorithm
        self.weights = [weight for weight in module.parameters() if weight.requires_grad]
        if not self.weights:
            raise UsageError("The model has no weights to train: all have `requires_grad=False`.")
        self._masters = MasterWeights(self.weights)
        self.optimizer = torch.optim.Adam(self._masters.masters, lr=algorithm.learning_rate)
        self.reference = reference
        if algorithm.kl is not None and reference is None:
            self.reference = copy.deepcopy(module).requires_grad_(False)
        self._spoilt = 0

    def update(self, sequences: Sequence[TrainingSequence]) -> UpdateStats:
        """Learn from a batch of scored sequences: `algorithm.epochs` optimiser steps.

        Sequences whose numbers are not finite are left out and named in the result; when that
        happens in three updates in a row, `TrainingDiverged` is raised. Raises `UsageError` if
        there is nothing to learn from.
        """
        if not actions(sequences):
            raise UsageError(
                "There is nothing to learn from: no sequence has a token that the model chose. "
                "Train a model that records its tokens, such as `TransformersModel`, at a "
                "temperature above 0."
            )
        self._masters.read()
        skipped = [sequence for sequence in sequences if not _is_finite(sequence)]
        stats, trouble = self._learn([s for s in sequences if _is_finite(s)], skipped)
        self.optimizer.zero_grad()
        self._spoilt = self._spoilt + 1 if trouble or skipped else 0
        if self._spoilt >= SPOILT_UPDATES:
            raise TrainingDiverged(stats.skipped, trouble)
        return stats

    def _learn(
        self, sequences: list[TrainingSequence], skipped: list[TrainingSequence]
    ) -> tuple[UpdateStats, str]:
        """The optimiser steps; adds to `skipped`. Also says what ended them early, if so."""
        step = StepSize(sum(any(s.action_mask) for s in sequences), actions(sequences))
        batches = self._batches(sequences)
        epochs: list[_Sum] = []
        trouble = ""
        for _ in range(self.algorithm.epochs if batches else 0):
            self.optimizer.zero_grad()
            epoch, bad = self._gradient(batches, step)
            if bad and not epochs:  # nothing has changed yet: begin again without these
                skipped += bad
                names = {id(sequence) for sequence in bad}
                return self._learn([s for s in sequences if id(s) not in names], skipped)
            if bad:
                trouble = (
                    f"After {len(epochs)} of its steps, the last update gave log-probabilities "
                    f"that were not finite: {_listed([sequence.name for sequence in bad])}"
                )
                break
            norm = torch.nn.utils.clip_grad_norm_(
                self._masters.masters, self.algorithm.max_grad_norm
            )
            epoch.grad_norm = float(norm)
            epochs.append(epoch)
            if not math.isfinite(epoch.grad_norm):
                trouble = "The gradient was not finite"
                break
            self.optimizer.step()
            self._masters.write_back()
        return _stats(epochs, step, [sequence.name for sequence in skipped]), trouble

    def _gradient(
        self, batches: list[Batch], step: StepSize
    ) -> tuple[_Sum, list[TrainingSequence]]:
        """Accumulate the gradient of one step; or the sequences that the model cannot score."""
        algorithm, total = self.algorithm, _Sum()
        bad: list[TrainingSequence] = []
        for batch in batches:
            logp_NA, entropy_NA = batch.log_probs(self.module)
            finite_N = torch.isfinite(logp_NA).all(-1)
            if not bool(finite_N.all()):
                bad += [
                    s for s, ok in zip(batch.sequences, finite_N.tolist(), strict=True) if not ok
                ]
            if bad:
                continue
            loss = policy_gradient_loss(
                logp_NA,
                batch.sampled_logp_NA,
                batch.advantage_N1,
                batch.mask_NA,
                clip=algorithm.clip,
                normalise=algorithm.normalise,
                step=step,
                max_tokens=algorithm.max_tokens,
                kl=algorithm.kl,
                reference_logp_NT=self._reference_logp(batch),
                entropy=algorithm.entropy,
                entropy_NT=entropy_NA,
            )
            loss.total.backward()  # type: ignore[no-untyped-call]
            self._masters.take_gradients()
            total.add(loss, gap=float((logp_NA - batch.sampled_logp_NA).detach().abs().max()))
        return total, bad

    def _reference_logp(self, batch: Batch) -> torch.Tensor | None:
        if self.algorithm.kl is None:
            return None
        with torch.no_grad():
            logp_NA, _ = batch.log_probs(self.reference)
            return logp_NA

    def _batches(self, sequences: Sequence[TrainingSequence]) -> list[Batch]:
        return list(
            micro_batches(
                sequences,
                vocabulary=self.module.get_output_embeddings().weight.shape[0],
                max_tokens=self.algorithm.micro_batch_tokens,
                device=self.module.device,
                # At least float32: sums over many tokens are taken in it.
                dtype=torch.promote_types(self.module.dtype, torch.float32),
            )
        )


@dataclass(slots=True)
class _Sum:
    """One epoch: its micro-batches' shares added up."""

    loss: float = 0.0
    entropy: float = 0.0
    moved: float = 0.0
    kl: float = 0.0
    clipped: float = 0.0
    grad_norm: float = 0.0
    gap: float = 0.0

    def add(self, loss: Loss, *, gap: float) -> None:
        self.loss += float(loss.total.detach())
        self.entropy += float(loss.entropy)
        self.moved += float(loss.moved)
        self.kl += float(loss.kl)
        self.clipped += float(loss.clipped)
        self.gap = max(self.gap, gap)


def _stats(epochs: Sequence[_Sum], step: StepSize, skipped: Sequence[str]) -> UpdateStats:
    if not epochs:
        return UpdateStats(skipped=tuple(skipped))

    def mean(name: str) -> float:
        return fmean(getattr(epoch, name) for epoch in epochs)

    return UpdateStats(
        loss=mean("loss"),
        entropy=mean("entropy"),
        moved=mean("moved"),
        kl=mean("kl"),
        clipped=mean("clipped"),
        grad_norm=epochs[-1].grad_norm,
        gap=epochs[0].gap,
        sequences=step.sequences,
        actions=step.tokens,
        skipped=tuple(skipped),
    )


def _is_finite(sequence: TrainingSequence) -> bool:
    return math.isfinite(sequence.advantage) and all(
        math.isfinite(logprob)
        for logprob, action in zip(sequence.logprobs, sequence.action_mask, strict=True)
        if action
    )
