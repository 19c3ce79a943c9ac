"""The doctor finds updates that never reach the sampler, and estimates time and memory."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rolecraft.models.token_model import Sampled, TokenRequest
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.doctor.patient import Patient
from rolecraft.training.doctor.probe import sample_probe
from rolecraft.training.doctor.throughput import Load, check_memory, check_speed
from rolecraft.training.doctor.weight_sync import (
    check_adapter_sync,
    check_sync,
    check_weight_sync,
)
from rolecraft.training.policy.sequences import TrainingSequence, training_sequences
from rolecraft.training.rl.learner import CopiedWeights


@pytest.fixture
async def sequences(patient: TransformersModel) -> list[TrainingSequence]:
    return training_sequences((await sample_probe(patient)).trajectory)


async def test_an_update_reaches_the_sampler_and_leaves_the_patient_alone(
    patient: TransformersModel, sequences: list[TrainingSequence]
) -> None:
    before = {name: weight.clone() for name, weight in patient.module.named_parameters()}
    weights = await check_weight_sync(Patient(patient), sequences)
    adapter = await check_adapter_sync(Patient(patient), sequences)
    for finding in (weights, adapter):
        assert finding.verdict == "ok", finding
        assert finding.numbers["effect"] > 10 * finding.numbers["gap"]
    now = {n.replace(".base_layer", ""): w for n, w in patient.module.named_parameters()}
    assert all(torch.equal(now[name], weight) for name, weight in before.items())
    assert patient.adapters.roles == []


@pytest.mark.parametrize("handed_over", [0, 10])
async def test_weights_that_are_not_handed_over_or_not_all_fail(
    patient: TransformersModel, sequences: list[TrainingSequence], handed_over: int
) -> None:
    class Forgets(CopiedWeights):
        def _hand_over(self) -> None:
            """The version rises all the same."""
            pairs = zip(self.model.module.parameters(), self._own.parameters(), strict=True)
            with torch.no_grad():
                for theirs, mine in list(pairs)[:handed_over]:
                    theirs.copy_(mine)

    sampler = TransformersModel(copy.deepcopy(patient.module), patient.tokenizer, name="copy")
    learner = Forgets(sampler, Algorithm(learning_rate=1e-3))
    finding = await check_sync("weight sync", learner, sampler, Patient(patient), sequences)
    await sampler.aclose()
    assert finding.verdict == "fail"
    assert ("other weights than" if handed_over else "of before the update") in finding.found


async def test_an_adapter_that_is_swapped_in_and_not_used_fails(
    patient: TransformersModel, sequences: list[TrainingSequence]
) -> None:
    class Loses(TransformersModel):
        async def sample(self, request: TokenRequest) -> Sampled:
            answer = await super().sample(replace(request, role="somebody else"))
            answer.version = self.adapters.last("doctor")
            return answer

    loses = Loses(patient.module, patient.tokenizer, parser="hermes")
    finding = await check_adapter_sync(Patient(loses), sequences)
    assert finding.verdict == "fail", finding


async def test_the_time_of_a_step_is_measured_and_can_be_bounded(
    patient: TransformersModel,
) -> None:
    whole, load = Patient(patient), Load(episodes=4, tokens=100, sampled=50)
    finding = await check_speed(whole, Algorithm(epochs=2), load, seconds=0.01)
    numbers = finding.numbers
    assert finding.verdict == "ok"
    assert numbers["sampling_seconds"] == pytest.approx(200 / numbers["sampled_per_second"])
    assert numbers["training_seconds"] == pytest.approx(800 / numbers["trained_per_second"])
    slow = await check_speed(whole, Algorithm(), load, seconds=0.01, slow=1e-9)
    assert slow.verdict == "fail"
    assert slow.advice


def test_memory_that_is_not_there_fails(patient: TransformersModel, tmp_path: Path) -> None:
    patient.save(tmp_path)

    def checked(free: int | None, load: Load) -> tuple[str, float]:
        finding = check_memory(
            tmp_path, dtype="float32", device="cpu", algorithm=Algorithm(), load=load, free=free
        )
        return finding.verdict, finding.numbers["needed_bytes"]

    verdict, needed = checked(None, Load(tokens=64))
    assert verdict == "ok"
    assert checked(int(needed) - 1, Load(tokens=64))[0] == "fail"
    assert checked(None, Load(tokens=16_384))[1] > needed
