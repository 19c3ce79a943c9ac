"""A model that answers nothing, or no more, is not asked on; what is waited for is told."""

from __future__ import annotations

import asyncio

import pytest

from rolecraft import FunctionModel
from rolecraft.errors import MissingKey, ModelError, ModelUnavailable
from rolecraft.models import Completion
from rolecraft.synthesis.asking import GIVE_UP, Asker
from rolecraft.synthesis.written.by_model import write_bugs
from rolecraft.trajectories.events import Usage


class Server(FunctionModel):
    """Answers the first questions, and then raises what `fails` makes of their number."""

    def __init__(self, fails, *, answers=0):
        super().__init__(self._next, name="server")
        self.fails, self.answers, self.asked = fails, answers, 0

    def _next(self, call):
        self.asked += 1
        if self.asked > self.answers:
            raise self.fails(self.asked)
        return Completion(text="yes", usage=Usage(1, 1, 0.01, 1))


def _down(number):
    return ModelUnavailable(f"no answer to question {number}", status=500)


async def _ask(asker, most=50):
    failed = []

    async def work(number):
        try:
            await asker.open(system="").ask(f"Question {number}")
        except ModelError as error:
            failed.append(error)

    return await asker.each(range(most), work), failed


async def test_a_model_that_answers_nothing_is_asked_a_few_times_and_told_as_one_error():
    """Each of 30 questions was asked six times, about 50 s each, and nothing stopped it."""
    model = Server(_down)
    with pytest.raises(ModelUnavailable, match="no answer to question") as raised:
        await _ask(Asker(model, at_once=1))
    assert model.asked == GIVE_UP
    assert "it answered no question" in raised.value.__notes__[0]


async def test_a_wrong_key_is_tried_with_one_question():
    model = Server(lambda number: MissingKey("no key", status=401))
    with pytest.raises(MissingKey):
        await _ask(Asker(model, at_once=1))
    assert model.asked == 1


async def test_questions_that_fail_for_different_reasons_are_all_asked():
    model = Server(lambda number: ModelError("refused", status=400 + number % 2))
    stopped, failed = await _ask(Asker(model, at_once=1), most=9)
    assert (stopped, len(failed)) == (None, 9)


async def test_a_model_that_answers_no_more_stops_it_and_keeps_what_it_said():
    model = Server(_down, answers=5)
    stopped, failed = await _ask(Asker(model, at_once=2))
    assert isinstance(stopped, ModelUnavailable)
    assert GIVE_UP + 2 <= len(failed) < 10


async def test_an_unknown_price_is_not_nothing():
    """It was told as $0.000000."""
    model = FunctionModel(lambda call: Completion(text="yes", usage=Usage(1, 1, None, 1)))
    conversation = Asker(model).open(system="")
    assert conversation.usd == 0.0
    await conversation.ask("What is it?")
    assert conversation.usd is None


async def test_what_is_waited_for_is_told_with_what_failed():
    told = asyncio.Event()
    words = []

    def on_wait(text):
        words.append(text)
        told.set()

    class Slow(FunctionModel):
        async def _complete(self, session, tools, sampling):
            session.on_retry(session, "no connection: refused.", 1.0)
            async with asyncio.timeout(60):
                await told.wait()
            return Completion(text="yes", usage=Usage(1, 1, 0.0, 1))

    model = Slow(lambda call: "", name="slow")
    asker = Asker(model, on_wait=on_wait, patience=0.01)
    assert await _ask(asker, most=2) == (None, [])
    assert words[0].startswith("Waiting for 2 answers, 0 s by now; 2 attempts failed, the last one")
    assert words[0].endswith("no connection: refused.")


def test_a_server_that_is_down_leaves_the_ledger_as_it_was(made):
    made.plan()
    with pytest.raises(ModelUnavailable):
        asyncio.run(write_bugs(made.folder, Server(_down), most=20, at_once=1))
    assert not made.folder.written.read_bytes()
