"""Many at once: clients that leave, more than are admitted, an engine that fails, an end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

HELLO = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
# The tiny model says this for long: a temperature at which it hardly ever ends.
LONG = {**HELLO, "temperature": 2, "max_tokens": 480, "seed": 3}


class Held:
    """Holds the model before each forward pass until the test lets go."""

    def __init__(self, model: Any) -> None:
        self.go_on = threading.Event()
        self.passes = 0
        self.sizes: list[int] = []
        model.module.register_forward_pre_hook(self._before, with_kwargs=True)

    def _before(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.passes += 1
        self.sizes.append(len(kwargs["input_ids"]))
        assert self.go_on.wait(60)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (the state is in another thread)
            await asyncio.sleep(0.01)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=120) as client:
        yield client


async def test_a_client_that_leaves_ends_its_answer_and_no_other(
    load: Callable[..., Any], serve: Callable[..., Any], client: httpx.AsyncClient
) -> None:
    server = serve(load())
    held = Held(server.model)
    url = f"{server.url}/chat/completions"
    for streams in (False, True):
        held.go_on.clear()
        leaving = asyncio.create_task(client.post(url, json={**LONG, "stream": streams}))
        staying = asyncio.create_task(client.post(url, json=HELLO))
        await until(lambda: server.desk.under_way == 2 and held.passes > 0)
        leaving.cancel()
        await until(lambda: server.desk.under_way == 1)
        held.go_on.set()
        assert (await staying).json()["choices"][0]["message"]["content"] == "Hello to you."
        await until(lambda: server.desk.under_way == 0)
        # Written to its end, the answer of who left would have taken hundreds of passes.
        assert held.passes < 60
        held.passes = 0


async def test_whoever_comes_later_does_not_wait_for_a_long_answer(
    load: Callable[..., Any], serve: Callable[..., Any], client: httpx.AsyncClient
) -> None:
    server = serve(load())
    url = f"{server.url}/chat/completions"
    long = asyncio.create_task(client.post(url, json={**LONG, "n": 4}))
    await until(lambda: server.desk.under_way == 4)
    short = await client.post(url, json=HELLO)
    assert short.json()["choices"][0]["message"]["content"] == "Hello to you."
    assert not long.done()
    assert (await long).status_code == 200


async def test_more_than_are_admitted_are_told_to_come_again(
    load: Callable[..., Any], serve: Callable[..., Any], client: httpx.AsyncClient
) -> None:
    server = serve(load(), max_answers=3)
    held = Held(server.model)
    url = f"{server.url}/chat/completions"
    first = [asyncio.create_task(client.post(url, json=HELLO)) for _ in range(3)]
    await until(lambda: server.desk.under_way == 3)
    for streams in (False, True):
        refused = await client.post(url, json={**HELLO, "stream": streams})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["type"] == "overloaded_error"
    held.go_on.set()
    assert {(await one).status_code for one in first} == {200}
    never = await client.post(url, json={**HELLO, "n": 4})
    assert never.status_code == 400
    assert (await client.post(url, json=HELLO)).status_code == 200


async def test_an_engine_that_fails_is_an_error_of_those_requests_and_the_next_is_served(
    load: Callable[..., Any], serve: Callable[..., Any], client: httpx.AsyncClient
) -> None:
    server = serve(load())
    url = f"{server.url}/chat/completions"

    def out_of_memory(*_: Any) -> None:
        raise MemoryError("no room")

    hook = server.model.module.register_forward_hook(out_of_memory)
    failed = await client.post(url, json=HELLO)
    assert failed.status_code == 500
    assert "no room" in failed.json()["error"]["message"]
    streamed = await client.post(url, json={**HELLO, "stream": True})
    assert streamed.status_code == 500
    hook.remove()
    assert (await client.post(url, json=HELLO)).status_code == 200


async def test_a_failure_in_the_middle_of_a_stream_is_its_last_event(
    load: Callable[..., Any], serve: Callable[..., Any], client: httpx.AsyncClient
) -> None:
    server = serve(load())
    passes = 0

    def fail_late(*_: Any) -> None:
        nonlocal passes
        passes += 1
        if passes == 4:
            raise MemoryError("no room")

    server.model.module.register_forward_hook(fail_late)
    answer = await client.post(f"{server.url}/chat/completions", json={**HELLO, "stream": True})
    assert answer.status_code == 200
    events = answer.text.strip().split("\n\n")
    assert '"error"' in events[-1]
    assert "no room" in events[-1]
    assert "[DONE]" not in answer.text


async def test_a_stop_lets_requests_under_way_finish_and_takes_no_more(
    load: Callable[..., Any], serve: Callable[..., Any], client: httpx.AsyncClient
) -> None:
    server = serve(load())
    held = Held(server.model)
    url = f"{server.url}/chat/completions"
    whole = asyncio.create_task(client.post(url, json=HELLO))
    streamed = asyncio.create_task(client.post(url, json={**HELLO, "stream": True}))
    await until(lambda: server.desk.under_way == 2 and held.passes > 0)
    server.server.stop()
    held.go_on.set()
    assert (await whole).json()["choices"][0]["message"]["content"] == "Hello to you."
    assert (await streamed).text.endswith("data: [DONE]\n\n")
    await asyncio.to_thread(server.stop)
    with pytest.raises(httpx.ConnectError):
        await client.post(url, json=HELLO)
