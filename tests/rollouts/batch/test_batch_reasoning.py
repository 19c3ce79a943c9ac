"""R11: reasoning is found wherever models and providers put it."""

from __future__ import annotations

import pytest

from rolecraft.rollouts.batch.reasoning import in_text, reasoning_of
from rolecraft.trajectories import Event

TEXTS = {
    "think": "<think>why</think>answer",
    "begun by the template": "why</think>answer",
    "doubled end": "why</think></think>answer",
    "thinking": "<thinking>why</thinking>answer",
    "reasoning": "<reasoning>why</reasoning>answer",
    "thought": "<thought>why</thought>answer",
    "scratchpad": "<REASONING_SCRATCHPAD>why</REASONING_SCRATCHPAD>answer",
    "seed": "<seed:think>why</seed:think>answer",
    "kimi": "◁think▷why◁/think▷answer",
    "longcat": "<longcat_think>why</longcat_think>answer",
    "mistral": "[THINK]why[/THINK]answer",
    "granite": "Here is my thought process: why Here is my response: answer",
    "gemma": "<|channel>thought\nwhy<channel|>answer",
    "harmony": "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final"
    "<|message|>answer<|return|>",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("model", ["", "openai/gpt-4o", "no-such-model"])
def test_reasoning_in_the_text_is_found_whatever_the_model_is_called(name: str, model: str) -> None:
    found = in_text(TEXTS[name], model)
    assert (found.reasoning, found.content, found.thought) == ("why", "answer", True)


def test_hunyuan_and_an_answer_that_was_cut_off_while_it_thought() -> None:
    assert in_text("<think>\nwhy\n</think>\n<answer>\n4\n</answer>").reasoning == "why"
    cut = in_text("<think>why, and th")
    assert (cut.reasoning, cut.content) == ("why, and th", "")


def test_a_call_of_a_tool_ends_reasoning() -> None:
    found = in_text("<think>why<tool_call>{}</tool_call>", "qwen/qwen3-8b")
    assert found.reasoning == "why"


@pytest.mark.parametrize("text", ["", "plain", "the mark `</think>` is quoted", '{"answer": 4}'])
def test_text_without_reasoning_stays_as_it_is(text: str) -> None:
    assert in_text(text) == in_text(text, "openai/gpt-4o")
    assert (in_text(text).content, in_text(text).thought) == (text, False)


@pytest.mark.parametrize("name", ["thinking", "thought"])
def test_a_json_answer_with_a_thought_counts_and_stays_what_was_sampled(name: str) -> None:
    text = f'{{"{name}": "why", "answer": 4}}'
    assert (in_text(text).content, in_text(text).thought) == (text, True)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"reasoning_content": "why"}, "why"),
        ({"reasoning": "why"}, "why"),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "why"}]}, "why"),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "why"}]}, "why"),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, ""),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "why", "signature": "s"}]}, "why"),
        ({"thinking_blocks": [{"type": "redacted_thinking", "data": "x"}]}, ""),
        ({"reasoning_items": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}, ""),
    ],
)
def test_what_a_provider_gave_or_kept_back_is_reasoning(fields: object, text: str) -> None:
    event = Event("model_call", content="answer", data={"provider_fields": fields})
    found = reasoning_of(event)
    assert (found.content, found.reasoning, found.thought) == ("answer", text, True)


def test_what_the_session_took_out_comes_first() -> None:
    event = Event("model_call", content="answer with </think> in it")
    found = reasoning_of(event, "why")
    assert (found.content, found.reasoning, found.thought) == (event.content, "why", True)
    assert not reasoning_of(Event("model_call", content="plain"), " \n").thought
