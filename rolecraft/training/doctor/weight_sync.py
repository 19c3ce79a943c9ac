"""Whether an update reaches the sampler.

A learner takes one large step on a copy, or on an adapter of its own; then the sampler answers.
Its numbers must be the trainer's new ones, not those of before: a hand-over that does nothing looks
like staleness for weeks.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.doctor.finding import Finding, Verdict, number, skipped
from rolecraft.training.doctor.gradients import credited
from rolecraft.training.doctor.patient import Patient, distances, largest, sampled, score
from rolecraft.training.doctor.probe import ROLE, sample_probe
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.sequences import TrainingSequence, training_sequences
from rolecraft.training.rl.learner import AdapterWeights, CopiedWeights, Learner

WEIGHTS, ADAPTER = "weight sync", "adapter sync"

LARGEST = 1 << 30
"""Bytes of weights that are copied, twice, for the check."""

_SEED = 1
"""Of the answers after the update."""


async def check_sync(
    name: str,
    learner: Learner,
    sampler: TransformersModel,
    patient: Patient,
    sequences: Sequence[TrainingSequence],
) -> Finding:
    """Update `learner` on `sequences` and ask `sampler`; `patient` is as it was before."""
    await learner.start()
    await learner.learn(credited(sequences))
    probe = await sample_probe(sampler, [ROLE], seed=_SEED)
    after = training_sequences(probe.trajectory)
    trained = await learner.think(lambda: score(learner.trainer.policy, after))
    before = await patient.model.run(lambda: patient.base_log_probs(after))
    gap = largest(distances(after, sampled(after), trained))
    effect = largest(distances(after, trained, before))
    versions = {sequence.version for sequence in after}
    limit = patient.limit
    verdict: Verdict = "ok"
    found = (
        f"After one update the sampler's log-probabilities, which it changed by up to "
        f"{number(effect)}, are the trainer's"
    )
    advice = ""
    if not patient.agrees(gap, effect) or versions != {learner.version}:
        verdict = "fail"
        stale = largest(distances(after, sampled(after), before)) <= limit < effect
        found = (
            f"Answers say version {sorted(map(str, versions))}, and {learner.version} was published"
            if versions != {learner.version}
            else "The sampler still answers with the weights of before the update"
            if stale
            else "The sampler answers with other weights than the trainer's"
        )
        advice = (
            "Nothing that is learnt would be sampled from. Look at what hands weights over, and "
            "that no cache answers for an older version."
        )
    elif not effect > limit:
        verdict = "warn"
        found = "The update changed no log-probability, so that nothing is proved"
        advice = "Look at the gradient: where it is 0 nothing can be learnt."
    return Finding(
        check=name,
        verdict=verdict,
        value=f"gap {number(gap)}, change {number(effect)} nats",
        limit=f"{number(limit)} nats",
        found=found,
        advice=advice,
        numbers={"gap": gap, "effect": effect},
    )


async def check_weight_sync(patient: Patient, sequences: Sequence[TrainingSequence]) -> Finding:
    """All weights, of a copy."""
    module = patient.module
    size = sum(weight.numel() * weight.element_size() for weight in module.parameters())
    if patient.adapters:
        return skipped(WEIGHTS, "Adapters are trained, and the base never changes.")
    if size > LARGEST:
        return skipped(WEIGHTS, f"The weights take {number(size / (1 << 30))} GiB, too many bytes "
                       "to copy; adapters go the same way.")  # fmt: skip
    sampler = TransformersModel(copy.deepcopy(module), patient.model.tokenizer, name="copy")
    try:
        learner = CopiedWeights(sampler, Algorithm(learning_rate=1e-3))
        return await check_sync(WEIGHTS, learner, sampler, patient, sequences)
    finally:
        await sampler.aclose()


async def check_adapter_sync(patient: Patient, sequences: Sequence[TrainingSequence]) -> Finding:
    """A new adapter, swapped into the model itself and taken out again."""
    model = patient.model
    learner = AdapterWeights(
        model, Algorithm(learning_rate=1e-2), AdapterSettings(roles=[ROLE], rank=8)
    )
    try:
        return await check_sync(ADAPTER, learner, model, patient, sequences)
    finally:
        await model.unload_adapter(ROLE)
        learner.close()
