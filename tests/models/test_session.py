"""Sessions: one conversation, one after the other, whose history only grows."""

from __future__ import annotations

import asyncio

import pytest

from rolecraft.errors import LimitReached, UsageError
from rolecraft.messages import Message
from rolecraft.models import (
    Budget,
    Completion,
    FunctionModel,
    Limits,
    Model,
    Sampling,
    ScriptedModel,
)


async def test_a_second_question_before_the_answer_is_refused_and_changes_nothing():
    """The two would see each other's messages, in an order that nobody chose."""
    gate = asyncio.Event()

    async def slow(call):
        await gate.wait()
        return "late"

    session = FunctionModel(slow).session("Bob")
    first = asyncio.create_task(session.generate([Message("one")]))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="'Bob' asked in a session that is still waiting"):
        await session.generate([Message("two")])
    gate.set()
    await first
    assert [message.content for message in session.messages] == ["one", "late"]


async def test_after_a_failed_or_cancelled_call_the_session_can_be_asked_again():
    gate = asyncio.Event()

    async def answer(call):
        if len(call.messages) == 1:
            raise ValueError("first time")
        if len(call.messages) == 2:
            await gate.wait()
        return "fine"

    session = FunctionModel(answer).session()
    with pytest.raises(ValueError, match="first time"):
        await session.generate([Message("a")])
    waiting = asyncio.create_task(session.generate([Message("b")]))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await session.generate([Message("c")])).text == "fine"
    assert [message.content for message in session.messages] == ["a", "b", "c", "fine"]


async def test_a_refused_call_keeps_its_question_and_reaches_no_model():
    model = ScriptedModel(["never"])
    session = model.session()
    session.budget = Budget(Limits(calls=0))
    with pytest.raises(LimitReached):
        await session.generate([Message("x")])
    assert [message.content for message in session.messages] == ["x"]
    assert model.calls == []


async def test_whoever_records_hears_of_everything_the_model_saw_once():
    """Also of the question of a call that failed: the model sees it with the next."""
    seen = []
    session = ScriptedModel(["one", ValueError("down"), "two"]).session(system="s")
    session.on_answer = lambda session, call, answer: seen.append(
        ([message.content for message in call.messages], call.sampling, answer.text)
    )
    await session.generate([Message("a")])
    with pytest.raises(ValueError, match="down"):
        await session.generate([Message("b")])
    await session.generate([Message("c")], sampling=Sampling(temperature=0.5))
    assert seen == [
        (["s", "a"], Sampling(), "one"),
        (["b", "c"], Sampling(temperature=0.5), "two"),
    ]


async def test_a_model_is_prepared_before_the_budget_asks_for_its_price():
    """An API model loads its price list there."""
    events = []

    class Slow(Model):
        real = False

        async def prepare(self):
            events.append("prepare")

        def estimate_usd(self, session, sampling, tools=()):
            events.append("estimate")
            return 0.0

        async def _complete(self, session, tools, sampling):
            events.append("complete")
            return Completion(text="")

    session = Slow().session()
    session.budget = Budget(Limits(usd=1.0))
    await session.generate()
    assert events == ["prepare", "estimate", "complete"]
