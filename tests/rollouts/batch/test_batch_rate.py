"""R14: against a real server that takes 20 requests a second, a batch is as fast as it allows."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import random
import re
import selectors
import time
from typing import Any

import pytest

from rolecraft import Action, Role, Team
from rolecraft.errors import ModelUnavailable
from rolecraft.models import (
    Completion,
    LiteLLMModel,
    Model,
    RateLimiter,
    Retries,
    allow_real_models,
)

COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "yes", "reasoning_content": "why"},
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class Metered:
    """Answers after `took` seconds, as many a second as its rate says; 429 with Retry-After else.

    What is not used for a second is lost.
    """

    def __init__(self, rate: float, *, took: float = 0.5) -> None:
        self.rate, self.took = rate, took
        self.log: list[tuple[float, bool]] = []
        """When each request came, and whether it was taken."""
        self._left, self._at = rate, time.monotonic()

    async def __aenter__(self) -> Metered:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def _takes(self) -> bool:
        now = time.monotonic()
        self._left = min(self.rate, self._left + (now - self._at) * self.rate)
        self._at = now
        taken = self._left >= 1
        self._left -= taken
        self.log.append((now, taken))
        return taken

    async def _serve(self, reader: Any, writer: Any) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                found = re.search(r"(?i)content-length: (\d+)", head)
                assert found is not None
                await reader.readexactly(int(found[1]))
                if self._takes():
                    await asyncio.sleep(self.took)
                    await self._send(writer, "200 OK", "", COMPLETION)
                else:
                    wait = "retry-after: 1\r\n"
                    await self._send(writer, "429 Slow down", wait, {"error": {"message": "no"}})
        writer.close()

    async def _send(self, writer: Any, status: str, more: str, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}"
        writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()

    def between(self, begin: float, end: float) -> tuple[float, float]:
        """Answers a second, and the share of requests that were refused."""
        there = [taken for at, taken in self.log if begin <= at < end]
        return sum(there) / (end - begin), there.count(False) / max(1, len(there))


class Speak(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(history[-1].content)


async def batch(bench: Any, server: Metered, rows: int, **options: Any) -> Any:
    bench.write(f"p{n}" for n in range(rows))
    model = LiteLLMModel(
        "openai/metered", api_key="k", base_url=server.url, retries=Retries(times=8, first_wait=0.2)
    )
    try:
        with allow_real_models():
            return await bench.run(Team([Role(name="R", actions=[Speak])]), model=model, **options)
    finally:
        await model.aclose()


@pytest.mark.slow
async def test_r14_a_batch_over_http_gets_all_its_answers_without_asking_much_too_often(
    bench: Any,
) -> None:
    """Real requests, in real time, on a machine that may be busy.

    What is exact is tested in the time of a jumping clock below. Measured here: 94 to 98 % used,
    0.6 to 1.3 % refused.
    """
    async with Metered(20) as server:
        report = await batch(bench, server, 600, concurrency=64)
    assert report.complete
    assert bench.statistics["statuses"] == {"ok": 600}
    times = [at for at, _ in server.log]
    used, wasted = server.between(times[0] + 5, times[-1] - 2)
    # One by one it would be two a second; without heed, two of three requests would be refused.
    assert used >= 0.25 * 20
    assert wasted < 0.5


# --- in the time of a clock that jumps ------------------------------------------------------------


class JumpingLoop(asyncio.SelectorEventLoop):
    """Where nothing is to be done now, by no thread either, it is the time of the next timer."""

    def __init__(self) -> None:
        self.now, self.working = 0.0, 0
        super().__init__(selectors.DefaultSelector())

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, function: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, function, *args)
        self.working += 1
        future.add_done_callback(self._worked)
        return future

    def _worked(self, future: Any) -> None:
        self.working -= 1

    def _run_once(self) -> None:
        while not self._ready and self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
            self._timer_cancelled_count -= 1
        if not self._ready and self._scheduled and not self.working:
            self.now = max(self.now, self._scheduled[0]._when)
        super()._run_once()


class Limited(Model):
    """A model behind a server that takes `rate` requests a second, asked as `LiteLLMModel` asks."""

    name = "limited"
    real = False

    def __init__(self, rate: float, loop: JumpingLoop, *, took: float, lift_at: float) -> None:
        self.rate, self.loop, self.took, self.lift_at = rate, loop, took, lift_at
        self.limiter = RateLimiter(clock=loop.time)
        self.log: list[tuple[float, bool]] = []
        self._left, self._at = rate, 0.0
        self._chance = random.Random(1)

    def _takes(self) -> bool:
        now = self.loop.time()
        rate = self.rate if now < self.lift_at else 1000.0
        self._left = min(rate, self._left + (now - self._at) * rate)
        self._at = now
        taken = self._left >= 1
        self._left -= taken
        self.log.append((now, taken))
        return taken

    async def _complete(self, session: Any, tools: Any, sampling: Any) -> Completion:
        ticket = self.limiter.ticket()
        for attempt in range(9):
            async with self.limiter.turn(ticket) as turn:
                if self._takes():
                    await asyncio.sleep(self.took * self._chance.uniform(0.8, 1.2))
                    return Completion(text="yes", reasoning="why")
                await asyncio.sleep(0.01)
                turn.refused(1.0)
            await asyncio.sleep(max(1.0, 0.2 * 2.0**attempt) * self._chance.uniform(1, 1.5))
        raise ModelUnavailable("refused too often", model=self.name)

    def between(self, begin: float, end: float) -> tuple[float, float]:
        there = [taken for at, taken in self.log if begin <= at < end]
        return sum(there) / (end - begin), there.count(False) / max(1, len(there))


@pytest.mark.parametrize("took", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_r14_twenty_requests_a_second_are_used_and_few_are_wasted(bench: Any, took: float) -> None:
    """Once it has found out what the server takes, in some 30 seconds of the 130."""
    loop = JumpingLoop()
    model = Limited(20, loop, took=took, lift_at=110.0)
    bench.write(f"p{n}" for n in range(2600))
    team = Team([Role(name="R", actions=[Speak])])
    try:
        report = loop.run_until_complete(
            bench.run(team, model=model, concurrency=256, seconds=3600.0, formats=())
        )
    finally:
        loop.close()
    assert report.complete
    assert bench.statistics["statuses"] == {"ok": 2600}
    used, wasted = model.between(30.0, 110.0)
    assert used >= 0.9 * 20
    assert wasted < 0.02
    after = [at for at, taken in model.log if taken and at >= 110.0]
    assert len(after) > 100
    assert len(after) / (after[-1] - after[0]) > 1.5 * 20  # the limit is lifted
