"""The checks that a training begins with: what would poison it from the first step on, in seconds.

Nothing is played and nothing is kept: adapters that are tried are taken out again, and the numbers
of the roles' own versions stay what they were. `examine` does more, and asks a scenario and a
reward.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.doctor.adapters_served import check_adapter, name_of
from rolecraft.training.doctor.finding import Finding, attempted, failed
from rolecraft.training.doctor.log_prob_gap import NAME as GAP
from rolecraft.training.doctor.log_prob_gap import check_gap
from rolecraft.training.doctor.mask import NAME as MASK
from rolecraft.training.doctor.mask import check_mask
from rolecraft.training.doctor.patient import Patient
from rolecraft.training.doctor.probe import PROBE, ROLE, sample_probe
from rolecraft.training.doctor.template import NAME as TEMPLATE
from rolecraft.training.doctor.template import check_template
from rolecraft.training.doctor.weight_sync import ADAPTER, check_adapter_sync
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.sequences import training_sequences


async def before_training(
    model: TransformersModel, adapters: AdapterSettings | None = None
) -> AsyncIterator[Finding]:
    """Findings on the chat template, log-probabilities, adapters and mask, each as it comes.

    A template that rewrites is a warning here, as it costs time alone. With `adapters`, those that
    it `starts` from are served and held against their folders, and a new one is trained for a step,
    swapped in and asked. Raises `AdapterError` for a folder in `starts` that is no adapter of this
    model.
    """
    # Under names of their own: a role's versions are counted, and training begins with the first.
    starts = {} if adapters is None else {f"{r} (checked)": p for r, p in adapters.starts.items()}
    patient = Patient(model, starts)
    try:
        for role, path in patient.adapters.items():
            await model.load_adapter(role, path)
        yield _as_a_cost(await attempted(TEMPLATE, lambda: check_template(model)))
        async for finding in _of_answers(patient, sync=adapters is not None):
            yield finding
    finally:
        for role in patient.adapters:
            await model.unload_adapter(role)


def _as_a_cost(finding: Finding) -> Finding:
    """Forks as a warning: each sequence is what the model saw, and episodes may never have one."""
    if finding.verdict == "fail" and finding.numbers.get("forks"):
        return replace(finding, verdict="warn")
    return finding


async def _of_answers(patient: Patient, *, sync: bool) -> AsyncIterator[Finding]:
    model = patient.model
    try:
        probe = await sample_probe(model, [*patient.adapters] or [ROLE])
    except Exception as error:  # of whatever the model does; that is the finding
        yield failed(PROBE, error)
        return
    sequences = training_sequences(probe.trajectory)

    async def gap() -> Finding:
        trained = await model.run(lambda: patient.log_probs(sequences))
        return check_gap(sequences, trained, patient.limit, hows=probe.hows)

    async def mask() -> Finding:
        return check_mask(probe.trajectory, sequences, model.tokenizer)

    async def served(role: str) -> Finding:
        now, path = model.adapters.current(role), patient.adapters[role]
        return await model.run(lambda: check_adapter(patient, role, path, now, sequences))

    yield await attempted(GAP, gap)
    for role in patient.adapters:
        yield await attempted(name_of(role), lambda r=role: served(r))  # type: ignore[misc]
    yield await attempted(MASK, mask)
    if sync:
        yield await attempted(ADAPTER, lambda: check_adapter_sync(patient, probe.of(ROLE)))
