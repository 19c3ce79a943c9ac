"""A model that is not asked twice for the same answer; its answers outlive the process.

What makes a question, and how files are read and written, is tested in
tests/failure_taxonomy/test_judging_cache.py, where judges use the same cache.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from rolecraft import FunctionModel, ScriptedModel
from rolecraft.errors import LimitReached, ModelUnavailable, UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models import (
    CachedModel,
    Completion,
    FallbackModel,
    Limits,
    LiteLLMModel,
    PromptCache,
    Sampling,
    Session,
)
from rolecraft.models.budget import Budget
from rolecraft.models.prompt_cache import question
from rolecraft.trajectories import Usage

COLD = Sampling(temperature=0)


def counting():
    """A model whose n-th answer is n."""

    def answer(call):
        return Completion(text=str(len(model.calls)), usage=Usage(10, 2, 0.5))

    model = FunctionModel(answer, name="m")
    return model


async def ask(model, text="?", *, seed=0, sampling=None, system=""):
    session = model.session("Ann", seed=seed, system=system)
    return await session.generate([Message(text)], sampling=sampling)


async def test_an_answer_that_was_given_costs_nothing_and_says_so(tmp_path):
    first = await ask(CachedModel(counting(), tmp_path), sampling=COLD)
    inner = counting()
    again = await ask(CachedModel(inner, tmp_path), sampling=COLD)
    assert inner.calls == []
    assert (again.text, again.usage) == (first.text, Usage(0, 0, 0.0, 0))
    assert again.kept == first.usage == Usage(10, 2, 0.5)
    assert first.kept is None


async def test_samples_of_one_question_stay_so_many_samples_and_come_again_in_order(tmp_path):
    model = CachedModel(counting(), tmp_path)
    samples = [(await ask(model)).text for _ in range(4)]
    assert samples == ["1", "2", "3", "4"]
    inner = counting()
    model = CachedModel(inner, tmp_path)
    assert [(await ask(model)).text for _ in range(5)] == [*samples, "1"]
    assert len(inner.calls) == 1, "only the fifth was new"


async def test_at_temperature_0_and_where_it_is_wanted_the_same_is_the_same(tmp_path):
    cold = CachedModel(counting(), tmp_path / "a")
    assert {(await ask(cold, sampling=COLD, seed=seed)).text for seed in range(3)} == {"1"}
    same = CachedModel(counting(), tmp_path / "b", repeats="same")
    assert {(await ask(same)).text for _ in range(3)} == {"1"}
    assert (await ask(same, seed=1)).text == "2"


async def test_another_question_is_asked(tmp_path):
    model = CachedModel(counting(), tmp_path, repeats="same")
    said = [
        await ask(model),
        await ask(model, "what?"),
        await ask(model, system="be brief"),
        await ask(model, sampling=COLD),
        await ask(model, sampling=Sampling(seed=3)),
    ]
    assert [answer.text for answer in said] == ["1", "2", "3", "4", "5"]


async def test_a_known_answer_is_in_no_budget(tmp_path):
    await ask(CachedModel(counting(), tmp_path), sampling=COLD)
    model = CachedModel(counting(), tmp_path)
    budget = Budget(Limits(calls=1))
    for text, known in (("?", True), ("?", True), ("new", False), ("?", True)):
        session = model.session("Ann")
        session.budget = budget
        answer = await session.generate([Message(text)], sampling=COLD)
        assert (answer.kept is not None) is known
    assert budget.spent.calls == 1
    session = model.session("Ann")
    session.budget = budget
    with pytest.raises(LimitReached):
        await session.generate([Message("newer")], sampling=COLD)


async def test_whoever_listens_hears_a_known_answer_too(tmp_path):
    await ask(CachedModel(counting(), tmp_path), sampling=COLD)
    session = CachedModel(counting(), tmp_path).session("Ann")
    heard = []
    session.on_delta = heard.append
    await session.generate([Message("?")], sampling=COLD)
    assert heard == ["1"]


async def test_a_failed_call_keeps_nothing_and_holds_up_nobody(tmp_path):
    begun, come = asyncio.Event(), asyncio.Event()

    async def answer(call):
        begun.set()
        await come.wait()
        if len(inner.calls) == 1:
            raise ModelUnavailable("gone")
        return "yes"

    inner = FunctionModel(answer)
    model = CachedModel(inner, tmp_path, repeats="same")
    asked = [asyncio.create_task(ask(model)) for _ in range(4)]
    await begun.wait()
    come.set()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    # Which of the four asks first is open: each looks for a kept answer in a thread.
    failed = [outcome for outcome in outcomes if isinstance(outcome, ModelUnavailable)]
    answers = [outcome for outcome in outcomes if outcome not in failed]
    assert len(failed) == 1
    assert {answer.text for answer in answers} == {"yes"}
    assert len(inner.calls) == 2
    assert len(model.cache) == 1


async def test_repairs_and_fields_of_the_provider_come_back(tmp_path):
    answer = Completion(
        text="",
        tool_calls=[ToolCall("look", {"at": 1}, id="c", repairs=("trailing comma",))],
        usage=Usage(1, 1, 0.0),
        finish_reason="tool_calls",
        provider_fields={"model": "m", "thinking_blocks": [{"signature": "s"}]},
    )
    cache = PromptCache(tmp_path)
    cache.put("ab12", "m", answer)
    assert cache.get("ab12") == answer


async def test_clear_deletes_what_is_old_enough(tmp_path):
    cache = PromptCache(tmp_path)
    for name in ("ab1", "ab2", "cd3"):
        cache.put(name, "m", Completion(text="yes"))
    old = tmp_path / "ab" / "ab1.json"
    os.utime(old, (1, 1))
    assert cache.clear(older_than=3600) == 1
    assert not old.exists()
    assert len(cache) == 2
    assert cache.clear() == 2
    assert len(cache) == 0


async def test_no_key_is_kept(tmp_path, server, make_model):
    model = CachedModel(make_model(api_key="sk-very-secret"), tmp_path)
    await ask(model)
    assert (await ask(CachedModel(make_model(api_key="sk-another"), tmp_path))).kept is not None
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*.json"))
    assert kept
    assert b"secret" not in kept
    assert len(server.requests) == 1


class Exact(ScriptedModel):
    def session(self, role="", *, system="", seed=0):
        return Session(self, role=role, system=system, seed=seed)


def test_models_with_conversations_of_their_own_cannot_be_kept(tmp_path):
    with pytest.raises(UsageError, match="exact tokens"):
        CachedModel(Exact([]), tmp_path)
    with pytest.raises(UsageError, match="repeats"):
        CachedModel(ScriptedModel([]), tmp_path, repeats="never")
    assert isinstance(CachedModel("openai/a", tmp_path).model, LiteLLMModel)


WRITER = """
    import sys
    from rolecraft.models import Completion, PromptCache
    cache = PromptCache(sys.argv[1])
    text = sys.argv[2] * 20_000
    print("ready", flush=True)
    for number in range(10**9):
        cache.put(f"{number % 50:02}abc", "m", Completion(text=text))
"""


@pytest.mark.slow
def test_processes_share_a_folder_and_a_kill_leaves_whole_answers(tmp_path):
    """Two processes write the same names over and over, and are killed in the middle."""
    code = textwrap.dedent(WRITER)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), letter], stdout=subprocess.PIPE
        )
        for letter in "ab"
    ]
    cache = PromptCache(tmp_path)
    try:
        for writer in writers:
            assert writer.stdout.readline() == b"ready\n"
        whole = {"a" * 20_000, "b" * 20_000}
        seen = 0
        while seen < 300:
            for number in range(50):
                answer = cache.get(f"{number:02}abc")
                seen += answer is not None
                assert answer is None or answer.text in whole
    finally:
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
    assert all(cache.get(f"{number:02}abc").text in whole for number in range(50))


def test_how_an_answer_is_read_and_who_may_give_it_are_part_of_the_question():
    said = [Message("Hello")]

    def at(address, **more):
        return LiteLLMModel("openai/m", base_url=address, api_key="none", **more)

    one, other = at("http://one/v1"), at("http://other/v1")
    last = FunctionModel(lambda call: "last")
    asked = [
        one,
        other,
        at("http://one/v1", reasoning=None),
        at("http://one/v1", reasoning="qwen3"),
        FallbackModel([one, last]),
        FallbackModel([other, last]),
        last,
        FunctionModel(lambda call: "another"),
    ]
    assert len({question(model, said) for model in asked}) == len(asked)
    same = LiteLLMModel("openai/m", base_url="http://one/v1", api_key="another key")
    assert question(same, said) == question(one, said)


async def test_an_answer_of_a_stand_in_is_not_kept_as_that_of_the_first(tmp_path):
    up = False

    def first(call):
        if not up:
            raise ModelUnavailable("gone")
        return "first"

    both = FallbackModel(
        [FunctionModel(first), FunctionModel(lambda call: "second")], cool_down=0.0
    )
    model = CachedModel(both, tmp_path, repeats="same")
    assert (await model.session().generate([Message("Who?")])).text == "second"
    up = True
    assert (await model.session().generate([Message("Who?")])).text == "first"


def test_a_call_that_was_cut_off_is_not_kept(tmp_path):
    cache = PromptCache(tmp_path)
    call = ToolCall("run", {}, "1", incomplete=True, raw='{"cmd": "l')
    cache.put("ab" * 20, "m", Completion(text="", tool_calls=[call]))
    assert cache.get("ab" * 20) is None
