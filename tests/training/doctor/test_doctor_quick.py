"""What a training begins with: the checks that are quick, and leave the model as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training import AdapterSettings
from rolecraft.training.doctor import Finding, before_training

REWRITES = (
    "{%- for message in messages %}<|im_start|>{{ message.role }} {{ loop.revindex }}\n"
    "{{ message.content }}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


async def found(
    model: TransformersModel, adapters: AdapterSettings | None = None
) -> dict[str, Finding]:
    return {finding.check: finding async for finding in before_training(model, adapters)}


async def test_a_healthy_model_passes_what_applies_to_it(patient: TransformersModel) -> None:
    findings = await found(patient)
    assert [*findings] == ["chat template", "log-prob gap", "mask"]
    assert {each.verdict for each in findings.values()} == {"ok"}


async def test_adapters_to_go_on_from_are_proved_and_leave_no_trace(
    patient: TransformersModel, saved_adapter: Callable[..., Path]
) -> None:
    settings = AdapterSettings(
        roles=["planner", "coder"], starts={"planner": saved_adapter("planner")}
    )
    findings = await found(patient, settings)
    assert findings["adapter of planner (checked)"].verdict == "ok"
    assert findings["adapter sync"].verdict == "ok"
    assert findings["log-prob gap"].verdict == "ok"
    assert patient.adapters.roles == []
    assert patient.adapters.last("planner") == 0, "training begins with the first version"


async def test_a_template_that_rewrites_is_a_warning_as_it_only_costs(
    patient: TransformersModel,
) -> None:
    patient.tokenizer.chat_template = REWRITES
    findings = await found(TransformersModel(patient.module, patient.tokenizer))
    assert findings["chat template"].verdict == "warn"
    assert findings["mask"].verdict == "ok"


async def test_a_template_with_which_nothing_can_be_said_fails(
    patient: TransformersModel,
) -> None:
    patient.tokenizer.chat_template = "{{ raise_exception('never') }}"
    findings = await found(TransformersModel(patient.module, patient.tokenizer))
    assert findings["chat template"].verdict == "fail"


async def test_weights_that_are_no_numbers_are_a_finding_and_no_traceback(
    patient: TransformersModel,
) -> None:
    patient.module.get_output_embeddings().weight.data.fill_(float("nan"))
    findings = await found(patient)
    assert [name for name, each in findings.items() if each.verdict == "fail"] == ["sampling"]
