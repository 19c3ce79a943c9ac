"""A turn costs what is new in it, however long the conversation; and is still the whole's.

Most templates look about: for the last question, whether an answer came later, how many messages
there are. They are shown an outline of a long conversation where trial says that it does as well.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from rolecraft.messages import Message
from rolecraft.models._locality import looked_for
from rolecraft.models._outline import Outline
from rolecraft.models._trial import Verdict, verdict
from rolecraft.trajectories.events import TokenSpan

FAMILIES = [
    *("hermes", "qwen25", "qwen3", "qwen3_coder", "deepseek_v3", "deepseek_v3_1", "glm45", "glm47"),
    *("kimi_k2", "llama3", "llama4", "longcat", "mistral", "mistral_v3", "gpt_oss"),
]
COUNTS_QUESTIONS = "longcat"


def test_which_templates_are_read_as_local(kit: Any) -> None:
    local = {name for name in FAMILIES if kit.RandomModel(kit.FAMILIES[name]).template.local}
    assert local == {
        *("hermes", "qwen25", "qwen3_coder", "kimi_k2", "llama3", "llama4", "mistral"),
    }


@pytest.mark.parametrize("name", FAMILIES)
def test_outlines_do_for_every_family_but_one_that_numbers_questions(kit: Any, name: str) -> None:
    model = kit.RandomModel(kit.FAMILIES[name])
    expected = Verdict(after_results=True, after_questions=name != COUNTS_QUESTIONS)
    assert verdict(model.template, model.end_texts) == expected


COUNTING = {
    "messages": '{{ "(%d)" % (messages | length) }}',
    "answers": '{{ messages | selectattr("role", "equalto", "assistant") | list | length }}',
}


@pytest.mark.parametrize("counted", COUNTING)
def test_a_template_that_counts_is_shown_everything(kit: Any, counted: str) -> None:
    model = written_by(kit, COUNTING[counted] + kit.FAMILIES["qwen3"].template + COUNTING[counted])
    assert verdict(model.template, model.end_texts) == Verdict()


def written_by(kit: Any, template: str, **settings: Any) -> Any:
    """A model like Qwen3 with another template."""
    model = kit.RandomModel(kit.FAMILIES["qwen3"], broken=0, **settings)
    tokenizer = copy.copy(model.tokenizer)
    tokenizer.chat_template = template
    model.template = type(model.template)(tokenizer, name="other")
    return model


def test_an_outline_is_as_long_for_many_turns_as_for_few() -> None:
    """Whatever was left out, each question that is shown is followed by its own steps."""
    lengths = []
    for turns in (10, 100):
        messages, outline = [Message("s", role="system")], Outline()
        for turn in range(turns):
            messages.append(Message(f"question {turn}"))
            for n in range(9):
                metadata = {"tool_calls": [n]} if n < 8 else None
                messages.append(Message("", role="assistant", metadata=metadata))
                messages += [Message("", role="tool")] if n < 8 else []
            outline.follow(messages, len(messages), {})
        part = outline.part(len(messages))
        assert part is not None
        lengths.append(len(part))
        roles = [messages[at].role for at in part]
        assert roles[:2] == ["system", "user"]
        assert all(two != ("user", "user") for two in pairwise(roles))
        assert part[-3:] == [len(messages) - 3, len(messages) - 2, len(messages) - 1]
    assert lengths[0] == lengths[1] < 40


def test_what_a_template_looks_for_in_texts_is_read_from_it(kit: Any) -> None:
    assert set(looked_for(kit.FAMILIES["qwen3"].template)) == {
        *("<tool_response>", "</tool_response>", "</think>", "<think>"),
    }
    assert looked_for(kit.FAMILIES["hermes"].template) == ()


async def spans_of(kit: Any, name: str, seed: int, turns: int, *, whole: bool) -> list[TokenSpan]:
    model = kit.RandomModel(kit.FAMILIES[name], broken=0.1)
    model.template.whole = whole
    talk = await kit.converse(model, seed, turns=turns, system="ab" * (seed % 2))
    assert model.template.whole == whole
    return [answer.tokens for answer in talk.answers]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_long_conversation_is_the_same_with_outlines_and_without(
    kit: Any, name: str, seed: int
) -> None:
    """Token for token, forks and their reasons included."""
    turns = 30 if seed == 0 else 120
    first, second = (
        asyncio.run(spans_of(kit, name, seed, turns, whole=whole)) for whole in (False, True)
    )
    assert first == second


async def test_a_template_that_changes_late_is_noticed_and_the_sequence_forks(
    kit: Any, logged: list[str]
) -> None:
    """No trial goes that far; the next whole rendering tells."""
    late = '{% if loop.index0 > 180 and message.role == "tool" %}{{ "#" }}{% endif %}'
    template = kit.FAMILIES["qwen3"].template
    head, loop, tail = template.rpartition("{%- for message in messages %}")
    model = written_by(kit, head + loop + late + tail)
    session = model.session("r")
    family = kit.FAMILIES["qwen3"]
    rewrites: dict[int, str] = {}
    new = [Message("ab")]
    for turn in range(132):
        model.script = [(kit.written(family, "", "", [kit.call(family)]), "<|im_end|>")]
        answer = await session.generate(new, tools=kit.TOOLS)
        if answer.tokens.rewrite:
            rewrites[turn] = answer.tokens.rewrite
        new = [Message("ba", role="tool", metadata={"tool_call_id": answer.tool_calls[0].id})]
    assert rewrites == {128: "a long conversation written otherwise than a short one"}
    request, _ = model.calls[-1]
    read = model.tokenizer.decode(request.ids)
    assert read.count("#<|im_start|>") == 132 - 91
    assert model.template.whole
    assert sum("writes a long conversation otherwise" in said for said in logged) == 1


def counting(model: Any) -> Counter[str]:
    """How many turns `model` renders and how many characters it tokenises, from now on."""
    counts: Counter[str] = Counter()
    template = model.template
    render, encode = template.render, template.encode

    def counted_render(turns: Any, *rest: Any, **how: Any) -> str:
        counts["turns"] += len(turns)
        return str(render(turns, *rest, **how))

    def counted_encode(text: str) -> list[int]:
        counts["characters"] += len(text)
        return list(encode(text))

    template.render, template.encode = counted_render, counted_encode
    return counts


async def cost(kit: Any, name: str, turns: int, *, asks: bool) -> tuple[Counter[str], Counter[str]]:
    """What ten appends render and tokenise, early and late in a conversation: least of three."""
    family = kit.FAMILIES[name]
    model = kit.RandomModel(family, broken=0)
    counts = counting(model)
    session = model.session("r")
    calls = [] if asks else [kit.call(family)]
    text = kit.written(family, "", "aab" if asks else "", calls)
    spent = []
    new = [Message("ab")]
    for _ in range(turns):
        model.script = [(text, family.ends[0 if asks else -1])]
        counts.clear()
        answer = await session.generate(new, tools=kit.TOOLS)
        spent.append(counts.copy())
        model.calls.clear()
        assert len(answer.tool_calls) == len(calls)
        said = "ab" * 20
        new = [
            Message(said, role="tool", metadata={"tool_call_id": call.id})
            for call in answer.tool_calls
        ] or [Message(said)]
    tens = [sum(spent[at : at + 10], Counter()) for at in range(0, turns, 10)]

    def least(some: list[Counter[str]]) -> Counter[str]:
        return min(some, key=lambda counted: counted["turns"])

    return least(tens[4:7]), least(tens[-3:])  # away from 32, 64, 256 and 512


@pytest.mark.parametrize(
    ("name", "turns"),
    [
        *((name, 250) for name in ("qwen25", "glm45", "gpt_oss")),
        *(pytest.param(name, 500, marks=pytest.mark.slow) for name in FAMILIES),
    ],
)
@pytest.mark.parametrize("asks", [False, True], ids=["calls", "questions"])
async def test_a_turn_at_the_end_of_a_long_conversation_costs_what_an_early_one_does(
    kit: Any, name: str, turns: int, asks: bool, request: pytest.FixtureRequest
) -> None:
    if asks and name == COUNTS_QUESTIONS:
        request.applymarker(
            pytest.mark.xfail(strict=True, reason="its template numbers the questions")
        )
    early, late = await cost(kit, name, turns, asks=asks)
    assert 0 < late["turns"] < 2 * early["turns"]
    assert 0 < late["characters"] < 2 * early["characters"]


async def test_a_long_message_is_tokenised_beside_the_event_loop(kit: Any) -> None:
    """Other roles go on meanwhile: a third of the time at most passes without a turn for them."""
    family = kit.FAMILIES["qwen25"]
    model = kit.RandomModel(family, broken=0)
    model.script = [(kit.written(family, "", "aa", []), family.ends[0])]
    answer = model.script
    text = "ab ba " * 300_000
    for _ in range(5):  # on a busy machine one of five tries must be quiet
        start = time.perf_counter()
        model.template.encode(text)
        alone = time.perf_counter() - start
        model.script = list(answer)
        late, over = [0.0], False

        async def tick() -> None:
            while not over:  # noqa: B023 (it ends with this turn of the loop)
                before = time.perf_counter()
                await asyncio.sleep(0.001)
                late.append(time.perf_counter() - before)  # noqa: B023

        ticking = asyncio.create_task(tick())
        await model.session("r").generate([Message(text)])
        over = True
        await ticking
        if len(late) > 10 and max(late) < alone / 3:
            return
    pytest.fail(f"Of {alone} seconds others had {len(late)} turns, and waited {max(late)} for one.")
