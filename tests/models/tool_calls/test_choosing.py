"""Which format a model writes: by its chat template, else by its name, never by a guess."""

import pytest

from rolecraft.models.tool_calls import choose_format, get_parser, parser_names

BY_NAME = {
    "NousResearch/Hermes-3-Llama-3.1-8B": "hermes",
    "NousResearch/Hermes-4-14B": "hermes",
    "Qwen/Qwen2.5-7B-Instruct": "qwen",
    "Qwen/Qwen3-0.6B": "qwen",
    "Qwen/QwQ-32B": "qwen",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": "qwen3_coder",
    "deepseek-ai/DeepSeek-V3-0324": "deepseek_v3",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek_v3",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": "deepseek_v3",
    "deepseek-ai/DeepSeek-V3.1-Terminus": "deepseek_v3_1",
    "zai-org/GLM-4.5-Air": "glm45",
    "zai-org/GLM-4.6": "glm45",
    "zai-org/GLM-4.7": "glm47",
    "moonshotai/Kimi-K2-Instruct": "kimi_k2",
    "meta-llama/Llama-3.3-70B-Instruct": "llama",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama",
    "meituan-longcat/LongCat-Flash-Chat": "longcat",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "mistral",
    "mistralai/Ministral-8B-Instruct-2410": "mistral",
    "mistralai/Devstral-Small-2507": "mistral",
    "openai/gpt-oss-20b": "gpt_oss",
    "/data/ann/llama-3.1/qwen3_8b/": "qwen",
}


@pytest.mark.parametrize(("model", "expected"), BY_NAME.items())
def test_by_name(model: str, expected: str) -> None:
    choice = choose_format(model)
    assert choice.format == expected
    assert choice.why.startswith("its name has `")
    assert expected in parser_names()


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("gpt2", "of no known family"),
        ("deepseek-ai/DeepSeek-V3.2", "of no known family"),
        ("teknium/OpenHermes-2.5-Mistral-7B", "`openhermes`: such models write no calls"),
        ("Llama-3.1-Qwen3-merge", "`qwen3` (qwen) and `llama-3.1` (llama)"),
        ("", "no name"),
    ],
)
def test_what_is_unknown_or_could_be_two_things_is_none_with_a_reason(model: str, why: str) -> None:
    choice = choose_format(model)
    assert choice.format is None
    assert why in choice.why


# What the templates write around the calls of earlier turns.
TEMPLATES = {
    "hermes": r"""{{ '\n<tool_call>\n{"name": "' + name + '", "arguments": ' + arguments }}""",
    "qwen": r"""You are Qwen, created by Alibaba Cloud. {{- '\n<tool_call>\n{"name": "' }}""",
    "qwen3_coder": r"""{{ '<tool_call>\n<function=' + name + '>\n' }}{{ '<parameter=' + key }}""",
    "deepseek_v3": r"""{{ '<｜tool▁calls▁begin｜>' }}{{ tool + '\n' + '```json' + '\n' }}""",
    "deepseek_v3_1": r"""{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool }}""",
    "glm45": "<tool_call>{{ name }}\n<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>",
    "glm47": "<tool_call>{{ name }}<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}",
    "longcat": "<longcat_tool_call>{{ call }}</longcat_tool_call>",
    "mistral": '{{ "[TOOL_CALLS] [" }}',
    "gpt_oss": "<|start|>assistant to=functions.{{ name }}<|channel|>commentary json<|message|>",
    "llama": r"""<|start_header_id|>{{- '{"name": "' + name + '", ' }}{{- '"parameters": ' }}""",
}


@pytest.mark.parametrize(("expected", "template"), TEMPLATES.items())
def test_by_template(expected: str, template: str) -> None:
    choice = choose_format("a-model-of-mine", template)
    assert choice.format == expected
    assert "the chat template has `" in choice.why


def test_a_template_that_writes_a_name_apart_from_its_channel_is_known_too() -> None:
    # As that of gpt-oss does: no string of it has `to=functions.` in it.
    template = """{{- "<|start|>assistant to=" }}{{- "functions." + name + "<|channel|>" }}
    {{- "commentary " + type + "<|message|>" }}"""
    assert choose_format("a-model-of-mine", template).format == "gpt_oss"


def test_the_template_is_better_evidence_than_the_name() -> None:
    assert choose_format("meta-llama/Llama-3.3-70B", TEMPLATES["mistral"]).format == "mistral"
    assert choose_format("Qwen/Qwen3-8B", "{{ content }}").format == "qwen"
    both = choose_format("Qwen/Qwen3-8B", TEMPLATES["mistral"] + TEMPLATES["kimi_k2"])
    assert both.format is None
    assert "it could be either format" in both.why


def test_each_choice_reads_what_its_template_would_write() -> None:
    for name in TEMPLATES:
        parser = get_parser(name)
        assert parser.parse(parser.render([])).tool_calls == []
