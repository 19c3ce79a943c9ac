"""The doctor finds templates that rewrite earlier turns, and says where and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.doctor.template import TALKS, check_template, try_talk

COUNTS = (
    "{%- for message in messages %}<|im_start|>{{ message.role }} {{ loop.revindex }}\n"
    "{{ message.content }}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Numbers each message from the end, so that all of them change with each turn."""
FORGETS = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' and message.reasoning_content and loop.last %}"
    "<think>\n{{ message.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ message.content }}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Leaves out what was thought before, as several families do."""


def with_template(patient: TransformersModel, template: str) -> TransformersModel:
    patient.tokenizer.chat_template = template
    return TransformersModel(patient.module, patient.tokenizer, parser="hermes")


async def test_a_template_that_appends_is_good(patient: TransformersModel) -> None:
    finding = await check_template(patient)
    assert (finding.verdict, finding.numbers["forks"]) == ("ok", 0), finding
    assert finding.numbers["conversations"] == 4
    assert "Not tried: reasoning" in finding.found


async def test_a_template_that_rewrites_every_turn_fails_with_the_turns_named(
    patient: TransformersModel,
) -> None:
    finding = await check_template(with_template(patient, COUNTS))
    assert finding.verdict == "fail"
    assert "questions: a new sequence begins before answer 2" in finding.found
    assert finding.numbers["cost"] > 1.5
    assert finding.advice


async def test_dropped_reasoning_is_a_warning_because_training_stays_right(
    patient: TransformersModel,
) -> None:
    finding = await check_template(with_template(patient, FORGETS))
    assert finding.verdict == "warn", finding
    assert "reasoning: a new sequence begins before answer 2" in finding.found


async def test_the_cost_counts_the_tokens_of_all_sequences(patient: TransformersModel) -> None:
    tried = await try_talk(with_template(patient, COUNTS), TALKS[0])
    assert len(tried.forks) == 2
    assert tried.tokens > tried.last > 0
    straight = await try_talk(with_template(patient, FORGETS), TALKS[0])
    assert (straight.forks, straight.cost) == ([], 1.0)


@pytest.mark.parametrize(
    ("family", "verdict", "says"),
    [
        ("qwen25", "ok", "continues the one before"),
        ("hermes", "ok", "continues the one before"),
        ("qwen3", "warn", "reasoning of an answer dropped"),
        ("glm45", "warn", "reasoning of an answer dropped"),
        # It writes the tools before the last question, so they move with each.
        ("mistral_v3", "fail", "calls of tools: a new sequence begins before answer 4"),
    ],
)
async def test_templates_of_real_families(
    patient: TransformersModel, family: str, verdict: str, says: str
) -> None:
    folder = Path(__file__).parents[2] / "models" / "token_sessions" / "templates"
    patient.tokenizer.chat_template = (folder / f"{family}.jinja").read_text("utf-8")
    model = TransformersModel(patient.module, patient.tokenizer, name=family)
    finding = await check_template(model)
    assert finding.verdict == verdict, finding
    assert says in finding.found


async def test_a_template_that_refuses_every_conversation_fails(
    patient: TransformersModel,
) -> None:
    broken = "{{ raise_exception('never') }}"
    finding = await check_template(with_template(patient, broken))
    assert finding.verdict == "fail"
    assert "No conversation can be had" in finding.found
