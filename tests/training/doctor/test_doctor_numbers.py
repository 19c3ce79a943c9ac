"""The doctor finds a sampler that the trainer disagrees with, and gradients that depend on how a
batch is split."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.algorithms.terms import Normalise
from rolecraft.training.doctor.gradients import (
    check_gradients,
    credited,
    gradient_of,
    step_gradient,
)
from rolecraft.training.doctor.log_prob_gap import check_gap
from rolecraft.training.doctor.patient import Patient
from rolecraft.training.doctor.probe import Probe, sample_probe
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.sequences import TrainingSequence, training_sequences
from rolecraft.training.policy.trainer import Trainer


@pytest.fixture
async def probe(patient: TransformersModel) -> Probe:
    return await sample_probe(patient)


def sequences(probe: Probe) -> list[TrainingSequence]:
    return training_sequences(probe.trajectory)


def test_all_ways_to_sample_agree_with_the_trainer(
    patient: TransformersModel, probe: Probe
) -> None:
    found, whole = sequences(probe), Patient(patient)
    finding = check_gap(found, whole.log_probs(found), whole.limit, hows=probe.hows)
    assert finding.verdict == "ok", finding
    assert finding.numbers["largest"] < 1e-4
    assert set(probe.hows.values()) > {"top_p 0.8", "choices", "temperature 0.5"}


def test_a_trainer_that_ignores_the_temperature_fails(
    patient: TransformersModel, probe: Probe
) -> None:
    found, whole = sequences(probe), Patient(patient)
    forgot = [replace(each, temperatures=[1.0] * len(each.ids)) for each in found]
    finding = check_gap(found, whole.log_probs(forgot), whole.limit, hows=probe.hows)
    assert finding.verdict == "fail"
    assert "temperature " in finding.found
    assert finding.advice
    assert finding.numbers["largest"] > 0.1


def test_a_trainer_that_ignores_top_p_fails(patient: TransformersModel, probe: Probe) -> None:
    found, whole = sequences(probe), Patient(patient)
    nucleus = [each for each in found if probe.hows[each.name] == "top_p 0.8"]
    forgot = [replace(each, support=[None] * len(each.ids)) for each in nucleus]
    finding = check_gap(nucleus, whole.log_probs(forgot), whole.limit, hows=probe.hows)
    assert finding.verdict == "fail"
    assert "top_p 0.8" in finding.found


def test_log_probabilities_that_are_no_numbers_fail(
    patient: TransformersModel, probe: Probe
) -> None:
    found, whole = sequences(probe), Patient(patient)
    with torch.no_grad():
        patient.module.model.norm.weight.fill_(math.nan)
    assert check_gap(found, whole.log_probs(found), whole.limit).verdict == "fail"


@pytest.mark.parametrize("adapters", [None, AdapterSettings(roles=["doctor"], rank=2)])
def test_the_gradient_does_not_depend_on_the_split(
    patient: TransformersModel, probe: Probe, adapters: AdapterSettings | None
) -> None:
    before = {name: weight.clone() for name, weight in patient.module.state_dict().items()}
    found = sequences(probe)
    gradient = gradient_of(patient.module, Algorithm(), found, adapters)
    finding = check_gradients(gradient, found, "float32")
    assert finding.verdict == "ok", finding
    assert finding.numbers["norm"] > 0
    for name, weight in patient.module.state_dict().items():
        assert torch.equal(weight, before[name])
    assert all(weight.grad is None for weight in patient.module.parameters())


def test_a_loss_that_is_normalised_by_micro_batch_fails(
    patient: TransformersModel, probe: Probe
) -> None:
    found = sequences(probe)

    def gradient(most: int) -> torch.Tensor:
        algorithm = Algorithm(micro_batch_tokens=most)
        # `Algorithm` refuses it, so it has to be planted.
        object.__setattr__(algorithm, "normalise", Normalise.MICRO_BATCH)
        return step_gradient(Trainer(patient.module, algorithm), credited(found))

    finding = check_gradients(gradient, found, "float32")
    assert finding.verdict == "fail"
    assert "Normalise.TOKENS" in finding.advice


def test_a_policy_without_any_gradient_fails(patient: TransformersModel, probe: Probe) -> None:
    """New adapters are zero, and behind an output layer of zeros they stay so."""
    torch.nn.init.zeros_(patient.module.lm_head.weight)
    found = sequences(probe)
    adapters = AdapterSettings(roles=["doctor"], rank=2)
    finding = check_gradients(
        gradient_of(patient.module, Algorithm(), found, adapters), found, "float32"
    )
    assert finding.verdict == "fail"
    assert finding.numbers["norm"] == 0
