"""What a client was told as text and proves to be reasoning: nothing of the answer is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolecraft.models.token_model import Sampled
from rolecraft.models.tool_calls import ContentPiece, TakenBack
from rolecraft.serving.answering import Answered, Piece, _Teller
from rolecraft.serving.orders import Order


def test_text_that_was_reasoning_is_told_again_as_such(load: Callable[..., Any]) -> None:
    told: list[Piece] = []
    order = Order(ids=[1], prompt="", role="", max_tokens=9, seed=0)
    teller = _Teller(load(), order, told.append, 0)
    for part in (ContentPiece("two and "), ContentPiece("two"), TakenBack(), ContentPiece("Fo")):
        teller._hear(part)
    whole = Answered(
        order=order,
        text="Four",
        reasoning="two and two",
        calls=(),
        finish="stop",
        sampled=Sampled(ids=[], logprobs=[], finish="stop"),
    )
    told += teller.rest(whole)
    assert "".join(piece.reasoning for piece in told) == "two and two"
    assert "".join(piece.text for piece in told) == "two and twoFour"
    assert told[-1].whole is whole
