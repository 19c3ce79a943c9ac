"""The format of a model is found by its name or its template, and a prompt tells where it ends."""

from __future__ import annotations

import pytest

from rolecraft.models.reasoning import (
    FORMATS,
    format_of,
    get_format,
    split_reasoning,
    starts_in_reasoning,
)
from rolecraft.models.reasoning.formats import ALIASES, MODELS


@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("Qwen/Qwen3-8B", "qwen3"),
        ("Qwen/Qwen3-4B-Thinking-2507", "qwen3_thinking"),
        ("Qwen/QwQ-32B", "qwen3_thinking"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek_r1"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek_v3"),
        ("zai-org/GLM-4.5-Air", "glm45"),
        ("zai-org/GLM-4.7", "glm47"),
        ("moonshotai/Kimi-K2-Thinking", "kimi_k2"),
        ("moonshotai/Kimi-VL-A3B-Thinking", "kimi"),
        ("MiniMaxAI/MiniMax-M2", "minimax_m2"),
        ("openai/gpt-oss-20b", "gpt_oss"),
        ("mistralai/Magistral-Small-2509", "mistral"),
        ("ByteDance-Seed/Seed-OSS-36B-Instruct", "seed_oss"),
        ("tencent/Hunyuan-A13B-Instruct", "hunyuan_a13b"),
        ("baidu/ERNIE-4.5-21B-A3B-Thinking", "ernie45"),
        ("ibm-granite/granite-3.2-8b-instruct", "granite"),
        ("google/gemma-4-27b-it", "gemma4"),
        ("stepfun-ai/step3", "step3"),
        ("stepfun-ai/Step-3.5-Flash", "step3p5"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", "nemotron"),
        ("meituan-longcat/LongCat-Flash-Thinking", "longcat"),
    ],
)
def test_the_name_of_a_model_says_its_format(model, form):
    assert format_of(model) is FORMATS[form]


def test_a_name_that_is_not_known_says_nothing_and_a_template_does():
    assert format_of("some/model") is None
    template = "{{ '<seed:think>' }}{{ '</seed:think>' }}"
    assert format_of("some/model", template) is FORMATS["seed_oss"]
    assert format_of("some/model", "{{ messages }}") is None


@pytest.mark.parametrize(
    "model",
    [
        *("THUDM/glm-4-9b-chat", "zai-org/GLM-4-32B-0414", "allenai/Olmo-3-7B-Instruct"),
        *("nvidia/Llama-3.1-Nemotron-70B-Instruct", "baidu/ERNIE-4.5-21B-A3B-PT"),
    ],
)
def test_an_answer_of_a_model_that_does_not_think_is_no_thought(model):
    assert split_reasoning("Hello", model=model).content == "Hello"


def test_folders_before_a_name_say_nothing():
    assert format_of("/data/deepseek/models/qwen3-8b/") is FORMATS["qwen3"]
    assert format_of("C:\\deepseek\\Seed-OSS-36B") is FORMATS["seed_oss"]


def test_every_name_in_the_tables_is_that_of_a_format():
    for name in (*(name for name, _ in MODELS), *ALIASES.values()):
        assert get_format(name).name == name
    assert not ALIASES.keys() & FORMATS.keys()


def test_the_names_that_engines_have_for_a_format_are_taken_too():
    assert get_format("deepseek-r1") is FORMATS["deepseek_r1"]
    assert get_format("openai_gptoss") is FORMATS["gpt_oss"]


@pytest.mark.parametrize(
    ("prompt", "inside"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("<|im_start|>assistant\n", False),
        ("Say <think> now.<|im_start|>assistant\n", False),
        ("", False),
    ],
)
def test_the_end_of_the_prompt_says_whether_the_answer_begins_in_reasoning(prompt, inside):
    assert starts_in_reasoning(prompt, get_format("qwen3")) is inside
