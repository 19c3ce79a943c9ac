"""A local model's answer is delivered while it is sampled, and nothing has to be taken back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.messages import Message
from rolecraft.models import RESET, Sampling
from rolecraft.models._pieces import Pieces
from rolecraft.models.tiny import tiny_model

torch.set_num_threads(1)


async def test_pieces_come_while_the_answer_is_sampled():
    """The sampling thread waits at its fourth token until a word has been heard."""
    heard = threading.Event()
    model = tiny_model([*"abcdefgh"], max_tokens=12)
    forward, steps = model.module.forward, []

    def counted(*args, **kwargs):
        steps.append(1)
        if len(steps) == 4:
            assert heard.wait(60)
        return forward(*args, **kwargs)

    model.module.forward = counted
    session, pieces = model.session("r"), []

    def hear(piece: str) -> None:
        pieces.append(piece)
        heard.set()

    session.on_delta = hear
    answer = await session.generate([Message("a b")], sampling=Sampling(max_tokens=12))
    assert "".join(pieces) == answer.text
    assert RESET not in pieces
    assert len(pieces) > 1


async def test_a_choice_is_delivered_whole():
    model = tiny_model([*"abcdefgh"])
    session, pieces = model.session("r"), []
    session.on_delta = pieces.append
    answer = await session.generate([Message("a")], sampling=Sampling(choices=("a b c", "d")))
    assert pieces == [answer.text]


async def test_listening_changes_nothing_in_what_is_sampled():
    silent, heard = (tiny_model([*"abcdefgh"]).session("r") for _ in range(2))
    heard.on_delta = lambda piece: None
    answers = [await s.generate([Message("a b")]) for s in (silent, heard)]
    assert answers[0] == answers[1]


async def test_what_an_abandoned_call_still_samples_is_not_taken_for_the_next_answer():
    model = tiny_model([*"abcdefgh"], max_tokens=64)
    session, pieces = model.session("r"), []
    session.on_delta = pieces.append
    call = asyncio.create_task(session.generate([Message("a b")]))
    await model.run(lambda: None)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    pieces.clear()
    answer = await session.generate([Message("c")])
    assert "".join(pieces) == answer.text


def in_bytes(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode("utf-8", "replace")


@settings(max_examples=300)
@given(
    text=st.text(st.sampled_from("ab é漢😀\n"), max_size=20),
    stop=st.lists(st.text(st.sampled_from("ab é漢"), min_size=1, max_size=4), max_size=2),
    invalid=st.booleans(),
)
def test_what_is_said_is_always_the_beginning_of_the_answer(text, stop, invalid):
    """One token a byte: characters come in parts; stop strings may begin and not end."""
    tokens = list(text.encode()) + ([0xFF, 0x61] if invalid else [])
    ends = [n for n in range(len(tokens) + 1) if any(end in in_bytes(tokens[:n]) for end in stop)]
    tokens = tokens[: min(ends, default=len(tokens))]  # sampling ends there
    whole = in_bytes(tokens)
    cuts = [at for at in (whole.find(end) for end in stop) if at >= 0]
    answer = whole[: min(cuts)] if cuts else whole
    said: list[str] = []
    hear = Pieces(in_bytes, said.append, stop=stop)
    for n in range(1, len(tokens) + 1):
        hear(tokens[:n])
        assert answer.startswith("".join(said))
    if not stop:
        assert "".join(said) == answer.rstrip("\ufffd")
