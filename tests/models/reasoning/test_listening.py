"""Whoever listens to reasoning gets all of it, in pieces that make up what is recorded."""

from __future__ import annotations

import pytest

from rolecraft.messages import Message
from rolecraft.models import RESET, Completion, Model, ScriptedModel


class Thinks(Model):
    """Delivers the pieces that it is told to, then an answer."""

    real = False

    def __init__(self, thoughts: list[str], answer: Completion) -> None:
        self.thoughts, self.answer = thoughts, answer

    async def _complete(self, session, tools, sampling):
        for piece in self.thoughts:
            session.deliver_reasoning(piece)
        return self.answer


@pytest.mark.parametrize(
    ("delivered", "heard"),
    [
        (["wh", "y"], ["wh", "y"]),
        (["wh"], ["wh", "y"]),
        ([], ["why"]),
        (["when"], ["when", RESET, "why"]),
    ],
)
async def test_the_pieces_since_the_last_reset_are_the_reasoning(delivered, heard):
    session = Thinks(delivered, Completion(text="yes", reasoning="why")).session()
    thoughts, pieces = [], []
    session.on_reasoning, session.on_delta = thoughts.append, pieces.append
    await session.generate([Message("hi")])
    assert thoughts == heard
    assert pieces == ["yes"]


async def test_who_listens_to_the_answer_alone_hears_no_reasoning():
    session, pieces = Thinks(["why"], Completion(text="yes", reasoning="why")).session(), []
    session.on_delta = pieces.append
    await session.generate([Message("hi")])
    assert pieces == ["yes"]


async def test_reasoning_of_one_answer_is_not_that_of_the_next():
    model = ScriptedModel([Completion(text="a", reasoning="x"), Completion(text="b")])
    session, thoughts = model.session(), []
    session.on_reasoning = thoughts.append
    await session.generate([Message("hi")])
    await session.generate([Message("hi")])
    assert thoughts == ["x"]


async def test_what_a_provider_wants_back_stays_with_the_message():
    model = ScriptedModel([Completion(text="a", provider_fields={"model": "m", "x": [1]}), "b"])
    session = model.session()
    await session.generate([Message("hi")])
    await session.generate([Message("hi")])
    assert session.messages[1].metadata == {"provider_fields": {"model": "m", "x": [1]}}
    assert session.messages[3].metadata is None
