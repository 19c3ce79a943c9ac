"""All who ask one model share a limiter, which finds out what its server takes.

Times are those of an event loop whose clock jumps to the next timer, so that minutes of a server's
life are real in their order and take no time. The last tests ask a real server over HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import math
import random
import re
import selectors
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.models import LiteLLMModel, RateLimiter, Retries, allow_real_models
from rolecraft.models.rate_limiter import shared_limiter


class JumpingLoop(asyncio.SelectorEventLoop):
    """Where nothing is to be done now, it is the time of the next timer."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(selectors.DefaultSelector())

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        while not self._ready and self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
            self._timer_cancelled_count -= 1
        if not self._ready and self._scheduled:
            self._now = max(self._now, self._scheduled[0]._when)
        super()._run_once()


def jumping(coroutine: Coroutine[Any, Any, Any]) -> Any:
    loop = JumpingLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def limiter_now(**settings: Any) -> RateLimiter:
    return RateLimiter(clock=asyncio.get_running_loop().time, **settings)


# --- turns ---------------------------------------------------------------------------------------


class Calls:
    """Calls that end when they are told."""

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter, self.ends, self.begun = limiter, {}, []
        self.turns: dict[int, Any] = {}

    async def one(self, name: int, ticket: int | None = None) -> None:
        self.ends[name] = asyncio.Event()
        async with self.limiter.turn(ticket) as turn:
            self.turns[name] = turn
            self.begun.append(name)
            await self.ends[name].wait()

    def start(self, *names: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.one(name)) for name in names]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "settings",
    [{"start": 0}, {"least": 0}, {"start": 9, "most": 8}, {"least": 3, "start": 2}, {"start": "8"}],
)
def test_bounds_that_make_no_sense_are_refused(settings):
    with pytest.raises((UsageError, TypeError)):
        RateLimiter(**settings)


async def test_so_many_are_under_way_and_the_others_come_in_their_order():
    calls = Calls(RateLimiter(start=3, most=3))
    tasks = calls.start(*range(10))
    for done in range(10):
        await settle()
        assert calls.limiter.under_way == min(3, 10 - done)
        assert calls.limiter.waiting == max(7 - done, 0)
        assert calls.begun == list(range(min(done + 3, 10)))
        calls.ends[done].set()
    await asyncio.gather(*tasks)


async def test_a_call_that_was_refused_goes_before_those_that_came_later():
    limiter = RateLimiter(start=1, most=1)
    calls = Calls(limiter)
    first = limiter.ticket()
    busy = asyncio.create_task(calls.one(0))
    await settle()
    later = calls.start(1, 2)
    await settle()
    again = asyncio.create_task(calls.one(3, first))
    await settle()
    for name in (0, 3, 1, 2):
        calls.ends[name].set()
        await settle()
    await asyncio.gather(busy, *later, again)
    assert calls.begun == [0, 3, 1, 2]


async def test_one_who_gives_up_waiting_takes_nobodys_place():
    calls = Calls(RateLimiter(start=1, most=1))
    tasks = calls.start(0, 1, 2)
    await settle()
    tasks[1].cancel()
    await asyncio.wait((tasks[1],))
    calls.ends[0].set()
    await settle()
    assert calls.begun == [0, 2]
    tasks[2].cancel()  # under way
    await asyncio.wait((tasks[2],))
    await tasks[0]
    assert (calls.limiter.under_way, calls.limiter.waiting) == (0, 0)


async def test_one_who_gives_up_at_the_moment_of_its_turn_hands_the_place_on():
    calls = Calls(RateLimiter(start=1, most=1))
    tasks = calls.start(0, 1, 2)
    await settle()
    calls.ends[0].set()
    await asyncio.sleep(0)  # the place is 1's now, who does not know yet
    tasks[1].cancel()
    await asyncio.wait((tasks[1],))
    await settle()
    assert calls.begun == [0, 2]
    calls.ends[2].set()
    await tasks[2]
    assert calls.limiter.under_way == 0


async def test_any_order_of_cancellations_leaves_no_place_taken_and_nobody_waiting():
    chance = random.Random(5)
    limiter = RateLimiter(start=4, most=4)

    async def one() -> None:
        async with limiter.turn():
            await asyncio.sleep(0)

    for _ in range(30):
        tasks = [asyncio.create_task(one()) for _ in range(40)]
        for _ in range(30):
            await asyncio.sleep(0)
            chance.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (limiter.under_way, limiter.waiting) == (0, 0)


# --- what refusals and answers change ------------------------------------------------------------


async def test_requests_that_are_refused_together_are_one_decrease():
    calls = Calls(RateLimiter(start=100))
    tasks = calls.start(*range(100))
    await settle()
    for turn in calls.turns.values():
        turn.refused()
    assert (calls.limiter.limit, calls.limiter.congestions) == (50, 1)
    assert calls.limiter.refusals == 100
    for end in calls.ends.values():
        end.set()
    await asyncio.gather(*tasks)
    assert calls.limiter.answers == 0


def test_one_refusal_of_one_role_changes_nothing_for_it():
    async def run() -> float:
        limiter = limiter_now()
        loop = asyncio.get_running_loop()
        for number in range(20):
            async with limiter.turn() as turn:
                await asyncio.sleep(1)
                if number == 5:
                    turn.refused()
        return loop.time()

    assert jumping(run()) <= 21.1  # one second of rest after the refusal


def test_retry_after_holds_for_everybody():
    async def run() -> list[float]:
        limiter, begun = limiter_now(), []

        async def one(refused: bool) -> None:
            async with limiter.turn() as turn:
                begun.append(asyncio.get_running_loop().time())
                if refused:
                    turn.refused(retry_after=30)
                    assert limiter.paused_for == 30

        await one(True)
        await asyncio.gather(*(one(False) for _ in range(5)))
        return begun

    begun = jumping(run())
    assert begun[0] == 0
    assert min(begun[1:]) >= 30


def test_a_limit_that_is_fixed_stays_so_and_retry_after_holds_all_the_same():
    async def run() -> tuple[float, float]:
        limiter, loop = limiter_now(start=3, least=3, most=3), asyncio.get_running_loop()
        for _ in range(5):
            async with limiter.turn() as turn:
                turn.refused()
        quick = loop.time()
        async with limiter.turn() as turn:
            turn.refused(retry_after=9)
        async with limiter.turn():
            assert limiter.limit == 3
        return quick, loop.time()

    assert jumping(run()) == (0, 9)


async def test_who_waits_for_a_time_is_woken_and_does_not_look():
    looked = 0

    def clock() -> float:
        nonlocal looked
        looked += 1
        return time.monotonic()

    limiter = RateLimiter(clock=clock)
    async with limiter.turn() as turn:
        turn.refused(retry_after=0.3)
    waiting = asyncio.create_task(Calls(limiter).one(0))
    await settle()
    before = looked
    await asyncio.sleep(0.05)
    assert looked == before
    waiting.cancel()


# --- what a server takes -------------------------------------------------------------------------


class Server:
    """Takes `places` at once, or `rate` a second with bursts of `burst`; answers after `took`."""

    def __init__(self, took, *, places=0, rate=0.0, burst=1.0, retry_after=None) -> None:
        self.took, self.places, self.rate, self.burst = took, places, rate, burst
        self.retry_after = retry_after
        self.capacity = rate or places / took
        self.answered = self.refused = self._busy = 0
        self._tokens, self._at = burst, 0.0
        self._chance = random.Random(1)

    def takes(self) -> bool:
        if self.places:
            return self._busy < self.places
        now = asyncio.get_running_loop().time()
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        self._tokens -= (taken := self._tokens >= 1)
        return taken

    async def ask(self) -> bool:
        if not self.takes():
            await asyncio.sleep(self.took / 50)
            self.refused += 1
            return False
        self._busy += 1
        await asyncio.sleep(self.took * self._chance.uniform(0.8, 1.2))
        self._busy -= 1
        self.answered += 1
        return True


async def ask_for_ever(limiter: RateLimiter, server: Server, mine: Counter[int], me: int) -> None:
    """As `LiteLLMModel` does with its default retries; six refusals of one call are an error."""
    while True:
        ticket = limiter.ticket()
        for attempt in range(6):
            async with limiter.turn(ticket) as turn:
                answered = await server.ask()
                if not answered:
                    turn.refused(server.retry_after)
            if answered:
                mine[me] += 1
                break
            wait = max(2.0**attempt, server.retry_after or 0)
            await asyncio.sleep(wait * random.uniform(1, 1.5))
        else:
            mine[-1] += 1


async def share_of(server: Server, *, sessions: int, warm: float, then: float):
    limiter, mine = limiter_now(), Counter()
    asking = [
        asyncio.create_task(ask_for_ever(limiter, server, mine, me)) for me in range(sessions)
    ]
    await asyncio.sleep(warm)
    before = server.answered, server.refused
    since = Counter(mine)
    await asyncio.sleep(then)
    answered, refused = server.answered - before[0], server.refused - before[1]
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    assert limiter.under_way == 0
    return answered / then / server.capacity, refused / (answered + refused), mine - since, mine[-1]


SERVERS = {
    "one at a time": Server(2.0, places=1),
    "four at once": Server(2.0, places=4),
    "sixteen, quickly": Server(0.02, places=16),
    "sixty at once": Server(5.0, places=60),
    "four at once, Retry-After": Server(0.5, places=4, retry_after=1.0),
    "ten a second": Server(0.02, rate=10, burst=10),
    "ten a second, no burst": Server(0.02, rate=10, burst=1),
    "ten a second, Retry-After": Server(0.02, rate=10, burst=10, retry_after=1.0),
    "sixty a minute": Server(4.0, rate=1, burst=60),
    "3,000 a minute": Server(3.0, rate=50, burst=50, retry_after=1.0),
}


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_a_server_is_kept_busy_and_refuses_little_whatever_it_takes(server):
    random.seed(1)
    settled = 300 / server.capacity + 20 * server.took + 20
    share, refused, mine, failed = jumping(
        share_of(server, sessions=200, warm=settled, then=max(4000 / server.capacity, 60))
    )
    assert share >= 0.8
    assert refused <= 0.05
    assert failed == 0, "no call used up its retries, in the beginning neither"
    # First come, first served: each of 200 sessions gets as many answers, more or less.
    counts = [mine[me] for me in range(200)]
    assert min(counts) >= 0.5 * max(counts)


@pytest.mark.parametrize("took", [0.05, 0.5, 2.0])
def test_twenty_a_second_with_retry_after_are_used_to_90_percent_and_2_percent_are_wasted(took):
    random.seed(1)
    server = Server(took, rate=20, burst=20, retry_after=1.0)
    share, refused, _, failed = jumping(share_of(server, sessions=200, warm=30, then=80))
    assert share >= 0.9
    assert refused < 0.02
    assert failed == 0


def test_the_first_volley_is_small_and_a_server_without_limits_is_soon_asked_500_at_a_time():
    async def run() -> tuple[int, int]:
        limiter, most = limiter_now(), 0

        async def one() -> None:
            nonlocal most
            async with limiter.turn():
                most = max(most, limiter.under_way)
                await asyncio.sleep(1)

        asking = [asyncio.create_task(one()) for _ in range(3000)]
        await asyncio.sleep(0.5)
        first = most
        await asyncio.sleep(9)  # ten round trips have begun
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return first, most

    first, most = jumping(run())
    assert first == 16
    assert most >= 500


def test_after_an_outage_it_is_as_fast_as_before():
    async def run() -> tuple[float, float]:
        server, limiter, mine = Server(0.1, places=20), limiter_now(), Counter()
        takes, loop = server.takes, asyncio.get_running_loop()
        server.takes = lambda: not 60 < loop.time() < 75 and takes()
        asking = [asyncio.create_task(ask_for_ever(limiter, server, mine, me)) for me in range(50)]
        await asyncio.sleep(30)
        before = server.answered
        await asyncio.sleep(30)
        answered = server.answered - before
        await asyncio.sleep(45)
        before = server.answered
        await asyncio.sleep(30)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return answered, server.answered - before

    random.seed(1)
    before, after = jumping(run())
    assert after >= 0.8 * before


class Moody(Server):
    """Refuses `share` of all requests, whatever the load; from `falls_at` on takes a tenth."""

    def __init__(self, took, *, share, falls_at=math.inf, seed=7, **takes) -> None:
        super().__init__(took, **(takes or {"places": 1_000_000}))
        self.share, self.falls_at = share, falls_at
        self._dice = random.Random(seed)

    def takes(self) -> bool:
        if asyncio.get_running_loop().time() >= self.falls_at:
            self.places, self.falls_at = self.places // 10, math.inf
            self.capacity /= 10
        return self._dice.random() >= self.share and super().takes()


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("sessions", [20, 200])
def test_a_server_that_refuses_at_random_whatever_the_load_is_asked_as_much(share, sessions):
    """At least half of what the same calls get who do not hold back at all."""
    random.seed(1)
    # An answer takes 2 seconds, and some 1.5 for each refusal before it.
    free = sessions / (2.0 + 1.5 * share / (1 - share))
    server = Moody(2.0, share=share)
    _, refused, mine, _ = jumping(share_of(server, sessions=sessions, warm=100, then=200))
    assert sum(mine[me] for me in range(sessions)) / 200 >= 0.5 * free
    assert refused == pytest.approx(share, rel=0.5)


def test_a_server_that_takes_only_a_tenth_any_more_is_asked_no_more_than_that():
    random.seed(1)
    server = Moody(2.0, share=0, places=60, falls_at=100)
    share, refused, _, failed = jumping(share_of(server, sessions=200, warm=400, then=1000))
    assert share >= 0.7
    assert refused <= 0.3
    assert failed == 0


def test_load_is_noticed_beside_refusals_at_random():
    """Without a limiter, nine of ten requests are refused here."""
    random.seed(1)
    server = Moody(2.0, share=0.1, places=20)
    share, refused, mine, failed = jumping(share_of(server, sessions=200, warm=200, then=1000))
    assert share >= 0.5
    assert refused <= 0.4
    assert failed <= 0.01 * mine.total()


# --- models --------------------------------------------------------------------------------------


def test_objects_of_one_model_share_a_limiter_and_other_models_keys_and_loops_do_not():
    async def limiters() -> list[RateLimiter]:
        models = [
            LiteLLMModel("openai/a", api_key="1"),
            LiteLLMModel("openai/a", api_key="1", timeout=9),
            LiteLLMModel("openai/a", api_key="2"),
            LiteLLMModel("openai/b", api_key="1"),
            LiteLLMModel("openai/a", api_key="1", base_url="http://127.0.0.1:1/v1"),
        ]
        return [model.limiter for model in models]

    first, second = asyncio.run(limiters()), asyncio.run(limiters())
    assert first[0] is first[1]
    assert len({id(limiter) for limiter in (*first, *second)}) == 8


async def test_a_limiter_that_is_given_is_the_one_that_holds():
    mine = RateLimiter(start=2, most=2)
    assert LiteLLMModel("openai/a", limiter=mine).limiter is mine
    assert shared_limiter("x") is shared_limiter("x") is not shared_limiter("y")


class HttpServer:
    """Speaks OpenAI's protocol, takes `rate` requests a second of each model, and says 429."""

    def __init__(self, rate: float, burst: float, retry_after: str = "") -> None:
        self.rate, self.burst, self.retry_after = rate, burst, retry_after
        self.answered: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._tokens: dict[str, tuple[float, float]] = {}

    async def __aenter__(self) -> HttpServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def _takes(self, model: str) -> bool:
        now = time.monotonic()
        tokens, at = self._tokens.get(model, (self.burst, now))
        tokens = min(self.burst, tokens + (now - at) * self.rate)
        self._tokens[model] = tokens - (tokens >= 1), now
        return tokens >= 1

    async def _serve(self, reader, writer) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(re.search(r"(?i)content-length: (\d+)", head)[1])
                model = json.loads(await reader.readexactly(length))["model"]
                if model == "free" or self._takes(model):
                    self.answered[model] += 1
                    await self._send(writer, 200, COMPLETION)
                else:
                    self.refused[model] += 1
                    await self._send(writer, 429, {"error": {"message": "slow down"}})
        writer.close()

    async def _send(self, writer, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
        if status == 429 and self.retry_after:
            head += f"retry-after: {self.retry_after}\r\n"
        writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()


COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("retry_after", ["", "0.2"], ids=["silent", "Retry-After"])
async def test_sixty_sessions_over_http_all_get_their_answers_and_another_model_is_not_slowed(
    retry_after,
):
    """Real requests of two models; one of them is let through 20 times a second."""
    retries = Retries(times=8, first_wait=0.2)
    async with HttpServer(rate=20, burst=5, retry_after=retry_after) as server:
        settings = {"api_key": "k", "base_url": server.url, "retries": retries}
        with allow_real_models():
            models = [LiteLLMModel("openai/tight", **settings) for _ in range(4)]
            free = LiteLLMModel("openai/free", **settings)
            await free.session().generate([Message("warm up")])

            async def ask(number: int) -> str:
                answer = await models[number % 4].session().generate([Message(f"{number}?")])
                return answer.text

            async def ask_free() -> None:
                session = free.session()
                for _ in range(20):
                    await session.generate([Message("?")])

            asked = [asyncio.create_task(ask(number)) for number in range(60)]
            await ask_free()
            undisturbed = free.limiter
            answers = await asyncio.gather(*asked)
            tight = models[0].limiter
            for model in (*models, free):
                await model.aclose()
    assert answers == ["yes"] * 60
    assert (server.answered["tight"], server.answered["free"]) == (60, 21)
    assert 0 < server.refused["tight"] < 240, "on average, a call is refused less than four times"
    assert tight.congestions > 0
    assert tight.refusals == server.refused["tight"]
    assert (undisturbed.congestions, undisturbed.refusals) == (0, 0)


def test_a_turn_costs_microseconds(growth):
    """Against a lock of asyncio's own, taken and released: the same work, many times over."""

    async def turns() -> None:
        limiter = RateLimiter()
        for _ in range(20_000):
            async with limiter.turn():
                pass

    async def locks() -> None:
        lock = asyncio.Lock()
        for _ in range(20_000):
            async with lock:
                pass

    growth(lambda work: lambda: asyncio.run(work()), locks, turns, at_most=25)
