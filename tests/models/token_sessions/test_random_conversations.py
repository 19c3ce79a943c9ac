"""What training receives is what was sampled: random conversations with tools, all families.

The sampler writes answers that a model of the family could write, broken ones, and any tokens at
all, cut into tokens at random; the tokenizer merges across every boundary. So whoever tokenises an
answer again, renders it again, or loses a turn, shows.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rolecraft.models.chat_template import TemplateRefuses
from rolecraft.training.policy.sequences import training_sequences


def mismatches(talk: Any) -> list[str]:
    """What training would see otherwise than the model did; empty if nothing."""
    sequences = {
        sequence.name.partition(":")[2]: sequence
        for sequence in training_sequences(talk.trajectory)
    }
    found = []
    for at, ((request, sampled), answer) in enumerate(
        zip(talk.model.calls, talk.answers, strict=True)
    ):
        span = answer.tokens
        sequence = sequences[span.session]
        start, end = len(request.ids), len(request.ids) + len(sampled.ids)
        wrong = {
            "prompt": sequence.ids[:start] != request.ids,
            "sampled": sequence.ids[start:end] != sampled.ids,
            "mask": sequence.action_mask[start:end] != [True] * len(sampled.ids),
            "given": any(sequence.action_mask[span.start : start]),
            "log-probabilities": sequence.logprobs[start:end] != sampled.logprobs,
            "version": (span.version, span.adapter) != (sampled.version, sampled.adapter),
            "fork": (span.start == 0) != (at == 0 or bool(span.rewrite)),
        }
        found += [f"call {at}: {name}" for name, bad in wrong.items() if bad]
    return found


def naively(talk: Any, kit: Any) -> bool:
    """Whether rendering and tokenising the whole conversation gives what the model last read."""
    request, _ = talk.model.calls[-1]
    try:
        rendered = talk.model.render(talk.session.messages[:-1], kit.TOOLS)
    except TemplateRefuses:
        return False
    return bool(talk.model.encode(rendered) == request.ids)


async def play(kit: Any, family: str, seeds: range, *, naive: bool = False) -> tuple[int, int, int]:
    """Conversations that mismatch, ones that tokenising again would get right, tool calls."""
    model = kit.RandomModel(kit.FAMILIES[family])
    wrong = right = calls = 0
    for seed in seeds:
        model.calls.clear()
        talk = await kit.converse(model, seed, turns=4)
        wrong += bool(mismatches(talk))
        right += naive and naively(talk, kit)
        calls += sum(len(answer.tool_calls) for answer in talk.answers)
    return wrong, right, calls


def test_nothing_is_otherwise_in_training_than_it_was_sampled(kit: Any) -> None:
    wrong = right = calls = 0
    for family in kit.FAMILIES:
        of_family = asyncio.run(play(kit, family, range(12), naive=True))
        wrong, right, calls = wrong + of_family[0], right + of_family[1], calls + of_family[2]
        assert of_family[2] > 4, f"{family} hardly ever called a tool"
    assert wrong == 0
    # And the test could have told: tokenising again would be wrong most of the time.
    assert right < 0.5 * 12 * len(kit.FAMILIES)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_conversations_and_not_one_mismatch(kit: Any, part: int) -> None:
    each = 1000 // len(kit.FAMILIES) + 1
    seeds = range(100 + part * each, 100 + (part + 1) * each)
    for family in kit.FAMILIES:
        assert asyncio.run(play(kit, family, seeds))[0] == 0, family


def test_a_lost_token_would_be_noticed(kit: Any) -> None:
    model = kit.RandomModel(kit.FAMILIES["qwen25"])
    talk = asyncio.run(kit.converse(model, 3))
    assert mismatches(talk) == []
    talk.answers[1].tokens.sampled[0] += 1
    assert mismatches(talk)
