"""Whether how a batch is split changes the gradient.

A step's loss is divided by sizes of the whole step, so its gradient is the same in one
micro-batch, in several, and with each sequence alone. Where a loss is divided by sizes of the
micro-batch instead, or packed sequences see each other, it is not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rolecraft.models.torch_extra import torch
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.doctor.finding import Finding, number, skipped
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.processes import Processes
from rolecraft.training.policy.sequences import TrainingSequence, actions
from rolecraft.training.policy.step import Step
from rolecraft.training.policy.trainer import Trainer

NAME = "gradient"

LIMITS = {"float64": 1e-4, "float32": 1e-4, "bfloat16": 5e-2, "float16": 1e-2}
"""The norm of the difference over the norm of the gradient, by the format of the weights."""

Gradient = Callable[[int], torch.Tensor]
"""From the most tokens of a micro-batch to the gradient, flat, in float32."""


def gradient_of(
    module: Any,
    algorithm: Algorithm,
    sequences: Sequence[TrainingSequence],
    adapters: AdapterSettings | None = None,
) -> Gradient:
    """The gradient of one step of a trainer on these sequences, by micro-batch size.

    Of the adapters' weights, else of all. The step is not taken.
    """
    if algorithm.critic is not None:  # its head begins anew, and is no part of the policy
        algorithm = replace(algorithm, critic=None, advantage="returns")
    judged = credited(sequences)

    def gradient(most: int) -> torch.Tensor:
        trainer = Trainer(module, replace(algorithm, micro_batch_tokens=most), adapters=adapters)
        return step_gradient(trainer, judged)

    return gradient


def credited(sequences: Sequence[TrainingSequence]) -> list[TrainingSequence]:
    """Copies with advantages of both signs and several sizes."""
    copies = [copy.deepcopy(sequence) for sequence in sequences]
    for index, sequence in enumerate(copies):
        sequence.credit((1.0, -0.5, 0.25)[index % 3])
    return copies


def step_gradient(trainer: Trainer, sequences: Sequence[TrainingSequence]) -> torch.Tensor:
    """All gradients of a trainer's step, laid end to end. The trainer is as before."""
    groups = list(trainer.groups.values())
    step = Step(trainer.policy, groups, sequences, Processes())
    try:
        step.gradient()
        parts = [
            (torch.zeros_like(weight) if weight.grad is None else weight.grad).float().flatten()
            for group in groups
            for weight in group.masters
        ]
        return torch.cat(parts)
    finally:
        for group in groups:
            group.clear()


def check_gradients(
    gradient: Gradient, sequences: Sequence[TrainingSequence], dtype: str
) -> Finding:
    """Compare gradients of all at once with those of two parts, and of each sequence alone."""
    acting = [sequence for sequence in sequences if actions([sequence])]
    if len(acting) < 2:
        return skipped(NAME, "It takes two sequences with sampled tokens.")
    tokens = sum(sequence.given_length for sequence in acting)
    limit = LIMITS.get(dtype, LIMITS["bfloat16"])
    whole = gradient(2 * tokens + 1)
    size = float(whole.norm())
    if not 0 < size < float("inf"):
        return Finding(
            check=NAME,
            verdict="fail",
            value=f"norm {number(size)}",
            found="The gradient of a step with advantages of both signs is 0 or no number",
            advice="Nothing can be learnt so. Look at the log-prob gap and the model's weights.",
            numbers={"norm": size},
        )
    splits = {"in several micro-batches": max(1, tokens // 3), "one by one": 1}
    off = {name: float((gradient(most) - whole).norm()) / size for name, most in splits.items()}
    most, how = max((value, name) for name, value in off.items())
    good = most <= limit
    return Finding(
        check=NAME,
        verdict="ok" if good else "fail",
        value=f"relative difference {number(most)}",
        limit=number(limit),
        found=f"{len(acting)} sequences give the same gradient packed, in parts and alone"
        if good
        else f"The gradient of {len(acting)} sequences {how} is another than that of all at once",
        advice=""
        if good
        else "Normalise by sizes of the whole step (`Normalise.TOKENS`), never of a micro-batch; "
        "if it is so already, the model mixes up packed sequences: report its architecture.",
        numbers={"norm": size, **{name.replace(" ", "_"): value for name, value in off.items()}},
    )
