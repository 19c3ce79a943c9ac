"""The checks that a training begins with: what would poison it from the first step on, in seconds.

Nothing is played and nothing is kept: adapters that are tried are taken out again, and the numbers
of the roles' own versions stay what they were. `examine` does more, and asks a scenario and a
reward.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.doctor.answers import of_answers, probed
from rolecraft.training.doctor.finding import Finding, attempted
from rolecraft.training.doctor.patient import Patient
from rolecraft.training.doctor.probe import ROLE
from rolecraft.training.doctor.template import NAME as TEMPLATE
from rolecraft.training.doctor.template import check_template
from rolecraft.training.doctor.weight_sync import ADAPTER, check_adapter_sync
from rolecraft.training.policy.adapter_settings import AdapterSettings


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
        probe = await probed(patient)
        if isinstance(probe, Finding):
            yield probe
            return
        async for finding in of_answers(patient, probe):
            yield finding
        if adapters is not None:
            yield await attempted(ADAPTER, lambda: check_adapter_sync(patient, probe.of(ROLE)))
    finally:
        for role in patient.adapters:
            await model.unload_adapter(role)


def _as_a_cost(finding: Finding) -> Finding:
    """Forks as a warning: each sequence is what the model saw, and episodes may never have one."""
    if finding.verdict == "fail" and finding.numbers.get("forks"):
        return replace(finding, verdict="warn")
    return finding
