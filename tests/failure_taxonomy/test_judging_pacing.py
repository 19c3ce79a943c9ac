"""A judge asks more slowly when its server is overloaded.

How the pace is found is tested with `RateLimiter` (tests/models/test_rate_limiter.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re

import pytest

from rolecraft.errors import ModelUnavailable
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.messages import Message
from rolecraft.models import FunctionModel, LiteLLMModel, RateLimiter, Retries, allow_real_models


async def test_so_many_calls_are_under_way_at_once():
    come = asyncio.Event()
    pace = RateLimiter(start=3, most=3)

    async def answer(call):
        await come.wait()
        return "yes"

    model = FunctionModel(answer)
    asker = Asker(model, pace=pace)
    asked = [asyncio.create_task(asker.open(system="s").ask(Message("why?"))) for _ in range(10)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert (len(model.calls), pace.under_way, pace.waiting) == (3, 3, 7)
    come.set()
    await asyncio.gather(*asked)
    assert (len(model.calls), pace.under_way) == (10, 0)


async def test_a_call_that_is_refused_for_good_slows_down_too():
    def refuse(call):
        raise ModelUnavailable("too much", status=503)

    pace = RateLimiter(start=8, most=8)
    with pytest.raises(ModelUnavailable):
        await Asker(FunctionModel(refuse), pace=pace).open(system="s").ask(Message("why?"))
    assert (pace.limit, pace.under_way) == (4, 0)


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
    pace = RateLimiter(start=8, most=8)
    asker = Asker(model, pace=pace)
    with allow_real_models():
        answers = await asyncio.gather(
            *(asker.open(system="s").ask(Message(f"why {number}?")) for number in range(60))
        )
        model_pace = model.limiter
    await model.aclose()
    server.close()
    assert {answer.text for answer in answers} == {"yes"}
    assert answered == 60
    assert 0 < refused < 30
    assert model_pace.lowest < 4
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
