"""The doctor finds an adapter that is not served, another one, and one that does nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rolecraft.models.token_model import Sampled, TokenRequest
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.doctor.adapters_served import check_adapter
from rolecraft.training.doctor.finding import Finding
from rolecraft.training.doctor.patient import Patient
from rolecraft.training.doctor.probe import sample_probe
from rolecraft.training.policy.sequences import training_sequences


async def checked(model: TransformersModel, folder: Path, served: Path | None = None) -> Finding:
    patient = Patient(model, {"writer": folder})
    version = await model.load_adapter("writer", served or folder)
    probe = await sample_probe(model, ["writer"])
    sequences = training_sequences(probe.trajectory)
    return check_adapter(patient, "writer", folder, version, sequences)


async def test_a_served_adapter_is_proved(
    patient: TransformersModel, saved_adapter: Callable[..., Path]
) -> None:
    finding = await checked(patient, saved_adapter("trained"))
    assert finding.verdict == "ok", finding
    assert finding.numbers["effect"] > 0.1 > 1e-4 > finding.numbers["gap"]


async def test_an_adapter_that_says_it_is_served_and_is_not_fails(
    patient: TransformersModel, saved_adapter: Callable[..., Path]
) -> None:
    """The digest is right, the name is right, and the base answered."""

    class Loses(TransformersModel):
        async def sample(self, request: TokenRequest) -> Sampled:
            answer = await super().sample(replace(request, role="somebody else"))
            answer.adapter, answer.version = "writer@1", 1
            return answer

    loses = Loses(patient.module, patient.tokenizer, parser="hermes")
    finding = await checked(loses, saved_adapter("trained"))
    assert finding.verdict == "fail"
    assert "answers as the base does" in finding.found


async def test_another_adapter_than_the_folder_has_fails(
    patient: TransformersModel, saved_adapter: Callable[..., Path]
) -> None:
    other = saved_adapter("other", zero=True)
    finding = await checked(patient, saved_adapter("trained"), served=other)
    assert finding.verdict == "fail"
    assert "digest" in finding.found


async def test_a_zero_adapter_is_told_apart(
    patient: TransformersModel, saved_adapter: Callable[..., Path]
) -> None:
    finding = await checked(patient, saved_adapter("untrained", zero=True))
    assert finding.verdict == "warn"
    assert "changes nothing" in finding.found
