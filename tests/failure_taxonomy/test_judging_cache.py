"""Answers are found again for exactly the question they were given to, also after a kill."""

from __future__ import annotations

import asyncio
import json

import pytest

from rolecraft.errors import ModelUnavailable
from rolecraft.failure_taxonomy.judging.asking import Asker, tallied
from rolecraft.messages import Message, ToolCall
from rolecraft.models import Completion, FunctionModel, Limits, LiteLLMModel, Sampling, Tool
from rolecraft.models.budget import Budget
from rolecraft.models.prompt_cache import CacheError, PromptCache, question
from rolecraft.trajectories import Usage

ANSWER = Completion(
    text="two \ud800 lines\n",
    reasoning="hm",
    tool_calls=[ToolCall("look", {"at": [1, None]}, id="c1", repairs=("raw newline",))],
    usage=Usage(100, 20, 0.5),
    finish_reason="tool_calls",
    attempts=3,
)


@pytest.fixture
def cache(tmp_path):
    return PromptCache(tmp_path / "answers")


async def test_an_answer_comes_back_whole(cache):
    cache.put("ab12", "some-model", ANSWER)
    assert cache.get("ab12") == ANSWER
    assert cache.get("ab13") is None
    assert len(cache) == 1


async def test_what_is_no_whole_answer_is_asked_for_again(cache, logged):
    cache.put("ab12", "some-model", ANSWER)
    (file,) = cache.folder.rglob("*.json")
    whole = file.read_text()
    for broken in ("", whole[:-10], "[]", "null", '{"version": 1}', whole.replace("1", "99", 1)):
        file.write_text(broken)
        assert cache.get("ab12") is None, broken
    assert str(file) in logged[0]


async def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "answers").write_text("a file")
    with pytest.raises(CacheError, match="answers"):
        PromptCache(tmp_path / "answers").put("ab12", "some-model", ANSWER)


def test_whatever_a_question_is_made_of_makes_another_question():
    model = LiteLLMModel("openai/a")
    messages = [Message("be strict", role="system"), Message("why?")]
    tool = Tool(name="look", parameters={"type": "object"})
    names = [
        question(model, messages),
        question(LiteLLMModel("openai/b"), messages),
        question(LiteLLMModel("openai/a", base_url="http://127.0.0.1:1/v1"), messages),
        question(LiteLLMModel("openai/a", extra={"reasoning_effort": "low"}), messages),
        question(LiteLLMModel("openai/a", sampling=Sampling(temperature=0.5)), messages),
        question(model, messages, sampling=Sampling(temperature=0.5)),
        question(model, messages, seed=1),
        question(model, messages, tools=[tool]),
        question(model, messages[1:]),
        question(model, [*messages, Message("why?")]),
        question(model, [Message("be strict", role="user"), Message("why?")]),
        question(model, [Message("be strictwhy?", role="system"), Message("")]),
        question(model, [*messages[:1], Message("why?", metadata={"tool_call_id": "1"})]),
    ]
    assert len(set(names)) == len(names)
    assert question(LiteLLMModel("openai/a"), list(messages)) == names[0]


def _model(texts=None, **settings):
    given = iter(texts or (f"answer {number}" for number in range(1000)))
    return FunctionModel(lambda call: Completion(text=next(given), usage=Usage(10, 5, 0.01)))


async def _ask(asker, text="why?", *, seed=0):
    return await asker.open(system="s", seed=seed).ask(Message(text))


async def test_a_question_that_was_answered_is_not_asked_again(cache):
    first, second = _model(), _model()
    answer = await _ask(Asker(first, cache=cache))
    with tallied() as tally:
        again = await _ask(Asker(second, cache=cache))
        other = await _ask(Asker(second, cache=cache), seed=1)
    assert again == answer
    assert len(second.calls) == 1, "only the other sample is asked for"
    assert (tally.asked, tally.reused) == (1, 1)
    assert tally.usage.usd == pytest.approx(0.01)
    assert tally.saved.prompt_tokens == 10
    assert other.text == "answer 0"


@pytest.mark.parametrize(
    "useless",
    [
        Completion(text=" \n"),
        Completion(text='{"marker": "ab', finish_reason="length"),
        Completion(text="I", finish_reason="content_filter"),
    ],
    ids=["empty", "cut off", "withheld"],
)
async def test_an_answer_that_is_empty_cut_off_or_withheld_is_asked_for_again(cache, useless):
    given = iter([useless, Completion(text="yes")])
    model = FunctionModel(lambda call: next(given))
    assert await _ask(Asker(model, cache=cache)) == useless
    assert len(cache) == 0
    for _ in range(2):
        assert (await _ask(Asker(model, cache=cache))).text == "yes"
    assert (len(model.calls), len(cache)) == (2, 1)


async def test_a_useless_answer_that_an_earlier_version_kept_is_asked_for_again(cache):
    cache.put("ab12", "some-model", ANSWER)
    (file,) = cache.folder.rglob("*.json")
    assert "ab12" in cache
    file.write_text(
        file.read_text().replace('"finish_reason": "tool_calls"', '"finish_reason": "length"')
    )
    assert cache.get("ab12") is None
    assert "ab12" not in cache


async def test_the_same_question_at_the_same_time_is_asked_once(cache):
    come, two, calls = asyncio.Event(), asyncio.Event(), []

    async def answer(call):
        calls.append(call)
        if len(calls) == 2:
            two.set()
        await come.wait()
        return "yes"

    asker = Asker(FunctionModel(answer), cache=cache)
    asked = [asyncio.create_task(_ask(asker)) for _ in range(5)]
    other = asyncio.create_task(_ask(asker, "another one"))
    await two.wait()
    come.set()
    assert {task.text for task in await asyncio.gather(*asked, other)} == {"yes"}
    assert len(calls) == 2
    assert not asker._asked._asking


async def test_one_who_waited_asks_when_the_first_one_fails(cache):
    def answer(call):
        if len(model.calls) == 1:
            raise ModelUnavailable("gone")
        return "yes"

    model = FunctionModel(answer)
    asker = Asker(model, cache=cache)
    with tallied() as tally:
        first, second = await asyncio.gather(_ask(asker), _ask(asker), return_exceptions=True)
    assert isinstance(first, ModelUnavailable)
    assert second.text == "yes"
    assert (tally.asked, tally.failed, len(cache)) == (1, 1, 1)


async def test_a_conversation_goes_on_after_an_answer_from_the_cache(cache):
    """A judge with tools: the second question has the first answer in it."""
    call = Completion(text="", tool_calls=[ToolCall("look", {"at": 3}, id="c1")])
    tool = Tool(name="look", parameters={"type": "object"})

    async def both(model):
        conversation = Asker(model, cache=cache).open(system="s")
        first = await conversation.ask(Message("why?"), tools=[tool])
        result = Message("nothing", role="tool", metadata={"tool_call_id": "c1"})
        return first, await conversation.ask(result, tools=[tool])

    model = FunctionModel(lambda asked: call if len(asked.messages) == 2 else "done")
    asked = await both(model)
    assert len(model.calls) == 2
    assert await both(model) == asked
    assert len(model.calls) == 2, "nobody was asked again"


async def test_a_reused_answer_counts_against_no_budget(cache):
    budget = Budget(Limits(calls=1))
    asker = Asker(_model(), cache=cache, budget=budget)
    for _ in range(3):
        await _ask(asker)
    assert budget.spent.calls == 1
    assert budget.spent.usd == pytest.approx(0.01)


async def test_no_part_of_the_question_is_kept_in_the_folder(cache):
    await _ask(Asker(FunctionModel(lambda call: "yes"), cache=cache), "the trace's own text")
    (file,) = cache.folder.rglob("*.json")
    assert "own text" not in file.read_text()
    assert json.loads(file.read_text())["text"] == "yes"
