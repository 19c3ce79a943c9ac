"""Pieces of an answer reach whoever listens as they come, and together they are the answer."""

from __future__ import annotations

import asyncio

import pytest

from rolecraft.errors import BadModelResponse
from rolecraft.messages import Message, ToolCall
from rolecraft.models import (
    RESET,
    Budget,
    Completion,
    FunctionModel,
    Limits,
    Model,
    Sampling,
    ScriptedModel,
    Session,
    Tool,
)
from rolecraft.trajectories.events import Usage


def listening(model: Model) -> tuple[Session, list[str]]:
    session, pieces = model.session("r"), []
    session.on_delta = pieces.append
    return session, pieces


def last_attempt(pieces: list[str]) -> str:
    """What somebody has who forgets everything at a `RESET`."""
    text = ""
    for piece in pieces:
        text = "" if piece == RESET else text + piece
    return text


async def test_doubles_say_word_after_word():
    model = ScriptedModel(["Rain stops  play\n", Completion(text="so does snow")])
    session, pieces = listening(model)
    await session.generate([Message("hi")])
    assert pieces == ["Rain", " stops", "  play", "\n"]
    pieces.clear()
    await session.generate([Message("hi")])
    assert pieces == ["so", " does", " snow"]


async def test_a_model_that_cannot_stream_delivers_the_whole_answer_at_its_end():
    class Whole(Model):
        real = False

        async def _complete(self, session, tools, sampling):
            return Completion(text="all at once")

    session, pieces = listening(Whole())
    await session.generate([Message("hi")])
    assert pieces == ["all at once"]


async def test_pieces_that_are_not_the_answer_are_taken_back():
    class Trims(Model):
        real = False

        async def _complete(self, session, tools, sampling):
            session.deliver(" yes ")
            return Completion(text="yes")

    session, pieces = listening(Trims())
    await session.generate([Message("hi")])
    assert pieces == [" yes ", RESET, "yes"]


async def test_a_call_that_fails_takes_its_pieces_back():
    class Fails(Model):
        real = False

        async def _complete(self, session, tools, sampling):
            session.deliver("almost ")
            raise RuntimeError("boom")

    session, pieces = listening(Fails())
    with pytest.raises(RuntimeError):
        await session.generate([Message("hi")])
    assert pieces == ["almost ", RESET]


async def test_nobody_listens_nothing_is_cut_into_words():
    session = FunctionModel(lambda call: "a b").session()
    await session.generate()
    assert session._pieces == []


# --- an API -------------------------------------------------------------------------------------


async def test_pieces_come_before_the_answer_is_complete(server, make_model):
    """The server holds each piece back until the one before has been heard."""
    server.answers(server.stream("Rain", " stops", " play", paced=True))
    session, pieces = listening(make_model(prices=(0.1, 1.0)))

    def hear(piece: str) -> None:
        pieces.append(piece)
        server.go_on()

    session.on_delta = hear
    server.go_on()  # after the first one, which only names the role
    for _ in range(3):  # finish reason, usage, [DONE]: nothing to hear
        server.go_on()
    answer = await asyncio.wait_for(session.generate([Message("hi")]), 60)
    assert pieces == ["Rain", " stops", " play"]
    assert (answer.text, answer.finish_reason, answer.attempts) == ("Rain stops play", "stop", 1)
    assert answer.usage == Usage(5, 2, pytest.approx(2.5))
    (request,) = server.requests
    assert request["stream"] is True
    assert request["stream_options"] == {"include_usage": True}


async def test_without_a_listener_nothing_is_streamed(server, make_model):
    await make_model().session().generate([Message("hi")])
    assert "stream" not in server.requests[0]


async def test_a_streamed_answer_is_the_answer_in_one_piece(server, make_model):
    """Text, usage, price, finish reason and tool calls, with the price of LiteLLM's list."""
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"n": 1}'}}
    deltas = [
        {"tool_calls": [{"index": 0, **call, "function": {"name": "read", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"n"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ]
    server.answers(
        server.chat("let me see", finish="tool_calls", tool_calls=[call]),
        server.stream("let me", " see", finish="tool_calls", deltas=deltas),
    )
    model = make_model("openai/gpt-4o-mini")
    whole = await model.session().generate([Message("hi")], tools=[Tool(name="read")])
    session, pieces = listening(model)
    streamed = await session.generate([Message("hi")], tools=[Tool(name="read")])
    assert streamed == whole
    assert streamed.tool_calls == [ToolCall("read", {"n": 1}, "c1")]
    assert streamed.usage.usd == pytest.approx(5 * 0.15e-6 + 2 * 0.6e-6)
    assert pieces == ["let me", " see"]


async def test_reasoning_is_kept_and_not_delivered_as_text(server, make_model):
    deltas = [{"reasoning_content": "Let me "}, {"reasoning_content": "think."}, {"content": "4"}]
    server.answers(server.stream(deltas=deltas))
    session, pieces = listening(make_model())
    answer = await session.generate([Message("2 + 2?")])
    assert (answer.reasoning, answer.text, pieces) == ("Let me think.", "4", ["4"])


async def test_tokens_are_counted_where_a_stream_has_no_usage(server, make_model):
    server.answers(server.stream("Rain stops play", usage=None))
    session, _ = listening(make_model())
    answer = await session.generate([Message("one two three")])
    assert answer.usage.prompt_tokens >= 3
    assert 3 <= answer.usage.completion_tokens <= 20


def broken(server, how: str):
    """A stream that ends in the middle."""
    answer = server.stream("Rain", " st", finish=None, usage=None, done=how == "unfinished")
    if how == "cut":
        answer.cut_after = len(answer.body)
        answer.body += b"data: {"
    return answer


@pytest.mark.parametrize("how", ["cut", "silent", "unfinished"])
async def test_a_stream_that_breaks_off_is_taken_back_and_asked_for_again(
    server, make_model, waits, how
):
    """Cut off by the connection, ended without a word, or with `[DONE]` but no finish reason."""
    server.answers(broken(server, how), server.stream("Snow", " melts"))
    session, pieces = listening(make_model())
    answer = await session.generate([Message("hi")])
    assert pieces == ["Rain", " st", RESET, "Snow", " melts"]
    assert (answer.text, answer.attempts, len(waits)) == ("Snow melts", 2, 1)
    assert [message.content for message in session.messages] == ["hi", "Snow melts"]


async def test_a_stream_that_never_holds_is_an_error(server, make_model):
    server.answers(broken(server, "silent"))
    session, pieces = listening(make_model(retries=0))
    with pytest.raises(BadModelResponse, match="broke off"):
        await session.generate([Message("hi")])
    assert last_attempt(pieces) == ""


@pytest.mark.parametrize("status", [429, 500])
async def test_a_refused_stream_is_asked_for_again(server, make_model, waits, status):
    server.answers(server.error(status), server.stream("ok"))
    session, pieces = listening(make_model())
    assert (await session.generate([Message("hi")])).attempts == 2
    assert pieces == ["ok"]


async def test_a_stream_that_dawdles_is_bounded_by_the_time_limit(server, make_model):
    server.answers(server.stream("Rain", " stops", paced=True))  # nobody calls `go_on`
    session, _ = listening(make_model(timeout=0.2, retries=0))
    with pytest.raises(Exception, match=r"nothing within 0\.2 s|did not answer"):
        await session.generate([Message("hi")])


async def test_a_streamed_call_is_within_the_budget(server, make_model):
    server.answers(server.stream("Rain", " stops"))
    session, _ = listening(make_model(prices=(0.01, 0.1)))
    session.budget = Budget(Limits(usd=100.0))
    await session.generate([Message("hi")], sampling=Sampling(max_tokens=2))
    assert session.budget.spent == Usage(5, 2, pytest.approx(0.25))


async def test_an_answer_in_one_piece_says_how_often_it_was_asked_for(server, make_model):
    server.answers(server.error(503), server.error(503), server.chat("ok"))
    assert (await make_model().session().generate([Message("hi")])).attempts == 3
