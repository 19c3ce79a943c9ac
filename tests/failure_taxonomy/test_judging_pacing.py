"""A judge asks more slowly when its server is overloaded, and faster again when it is not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re

import pytest

from rolecraft.errors import ModelUnavailable, UsageError
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.failure_taxonomy.judging.pacing import Pace
from rolecraft.messages import Message
from rolecraft.models import FunctionModel, LiteLLMModel, Retries, allow_real_models
from rolecraft.models._failures import Failure


class _Calls:
    """Calls that end when they are told."""

    def __init__(self, pace: Pace) -> None:
        self.pace, self.ends, self.begun = pace, {}, []
        self.most = 0

    async def one(self, name: int) -> None:
        self.ends[name] = asyncio.Event()
        async with self.pace.turn() as turn:
            self.begun.append((name, turn))
            self.most = max(self.most, self.pace.under_way)
            await self.ends[name].wait()
            self.pace.went_well()

    def start(self, *names: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.one(name)) for name in names]


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("most", [0, -1, 1.5, True, "8"])
def test_the_number_of_calls_is_checked(most):
    with pytest.raises(UsageError, match="concurrency"):
        Pace(most)


async def test_so_many_calls_are_under_way_and_the_others_come_in_their_order():
    calls = _Calls(Pace(3))
    tasks = calls.start(*range(10))
    for done in range(10):
        await _settle()
        assert calls.pace.under_way == min(3, 10 - done)
        assert [name for name, _ in calls.begun] == list(range(min(done + 3, 10)))
        calls.ends[done].set()
    await asyncio.gather(*tasks)
    assert calls.most == 3


async def test_one_overload_halves_the_limit_once_however_many_calls_meet_it():
    calls = _Calls(Pace(8))
    tasks = calls.start(*range(20))
    await _settle()
    turns = [turn for _, turn in calls.begun]
    for turn in turns:
        calls.pace.overloaded(turn)
    assert calls.pace.limit == 4
    for name in range(3):
        calls.ends[name].set()
    await _settle()
    assert calls.pace.under_way == 5
    assert len(calls.begun) == 8, "nobody takes the place of calls above the new limit"
    for name in range(3, 6):
        calls.ends[name].set()
    await _settle()
    assert len(calls.begun) > 8
    before = calls.pace.limit
    calls.pace.overloaded(calls.begun[-1][1])
    assert calls.pace.limit == before / 2, "a call that began after the cut met another overload"
    while not all(task.done() for task in tasks):
        for end in calls.ends.values():
            end.set()
        await _settle()


async def test_it_becomes_faster_again_by_one_call_a_round():
    pace = Pace(8)
    for turn in range(1, 5):
        pace.overloaded(turn)
        pace._begun = turn
    assert pace.limit == 1
    assert pace.slowest == 1
    rounds = 0
    while pace.limit < 8:
        for _ in range(int(pace.limit)):
            pace.went_well()
        rounds += 1
    assert 7 <= rounds <= 14
    pace.went_well()
    assert pace.limit == 8


async def test_nothing_begins_before_the_server_said_and_nobody_looks_meanwhile():
    now = [100.0]
    looked = []

    def clock() -> float:
        looked.append(now[0])
        return now[0]

    calls = _Calls(Pace(4, clock=clock))
    first = calls.start(0)
    await _settle()
    calls.pace.overloaded(1, retry_after=0.05)
    calls.ends[0].set()
    others = calls.start(1, 2)
    await _settle()
    assert len(calls.begun) == 1
    before = len(looked)
    await asyncio.sleep(0.02)
    assert len(looked) == before, "it waits for a timer"
    now[0] += 1
    for name in (1, 2):
        calls.ends[name].set()
    await asyncio.gather(*first, *others)
    assert len(calls.begun) == 3


async def test_one_who_gives_up_waiting_takes_nobodys_place():
    calls = _Calls(Pace(1))
    tasks = calls.start(0, 1, 2)
    await _settle()
    tasks[1].cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await tasks[1]
    calls.ends[0].set()
    await _settle()
    assert [name for name, _ in calls.begun] == [0, 2]
    calls.ends[2].set()
    await asyncio.gather(tasks[0], tasks[2])
    assert calls.pace.under_way == 0


async def test_a_refused_attempt_slows_the_next_calls_down():
    pace = Pace(8)
    asker = Asker(FunctionModel(lambda call: "yes"), pace=pace)
    conversation = asker.open(system="s")

    def refuse(call):
        session = conversation._session
        session.on_retry(session, Failure(kind="server", text="broken", status=500), 1.0)
        assert pace.limit == 8, "an error of the server is no overload"
        session.on_retry(session, Failure(kind="rate_limit", text="slow", status=429), 1.0)
        assert pace.limit == 4
        return "yes"

    asker.model._function = refuse
    await conversation.ask(Message("why?"))
    assert 4 < pace.limit < 5
    assert pace.under_way == 0


async def test_a_call_that_is_refused_for_good_slows_down_too():
    def refuse(call):
        raise ModelUnavailable("too much", status=503)

    pace = Pace(8)
    with pytest.raises(ModelUnavailable):
        await Asker(FunctionModel(refuse), pace=pace).open(system="s").ask(Message("why?"))
    assert pace.limit == 4
    assert pace.under_way == 0


@pytest.mark.slow
async def test_behind_a_server_that_takes_two_at_once_few_attempts_are_refused():
    """A real server and client. Eight at once, and three of four attempts would be refused."""
    under_way = answered = refused = 0

    async def serve(reader, writer):
        nonlocal under_way, answered, refused
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                await reader.readexactly(int(re.search(r"content-length: (\d+)", head)[1]))
                under_way += 1
                status, body = 200, _completion("yes")
                if under_way > 2:
                    status, body, refused = 429, {"error": {"message": "slow down"}}, refused + 1
                else:
                    await asyncio.sleep(0.02)
                    answered += 1
                under_way -= 1
                content = json.dumps(body).encode()
                fields = f"content-type: application/json\r\ncontent-length: {len(content)}"
                writer.write(f"HTTP/1.1 {status} X\r\n{fields}\r\n\r\n".encode() + content)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = LiteLLMModel(
        "openai/judge",
        api_key="sk-test",
        base_url=f"http://127.0.0.1:{port}/v1",
        retries=Retries(times=20, first_wait=0.01, longest_wait=0.05),
    )
    pace = Pace(8)
    asker = Asker(model, pace=pace)
    with allow_real_models():
        answers = await asyncio.gather(
            *(asker.open(system="s").ask(Message(f"why {number}?")) for number in range(60))
        )
    await model.aclose()
    server.close()
    assert {answer.text for answer in answers} == {"yes"}
    assert answered == 60
    assert 0 < refused < 30
    assert pace.slowest < 4
    assert pace.under_way == 0


def _completion(text):
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "judge",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
