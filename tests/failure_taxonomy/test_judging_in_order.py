"""Work on many things at once: the results come in order, and a slow one holds up no work."""

from __future__ import annotations

import asyncio

import pytest

from rolecraft.failure_taxonomy._in_order import in_order


async def test_a_slow_one_holds_up_the_results_and_not_the_work():
    first, done, under_way = asyncio.Event(), [], 0

    async def work(number):
        nonlocal under_way
        under_way += 1
        assert under_way <= 3
        if number == 0:
            await first.wait()
        else:
            await asyncio.sleep(0)
        under_way -= 1
        done.append(number)
        if len(done) == 9:
            first.set()
        return number * 10

    results = [result async for result in in_order(iter(range(10)), work, at_once=3)]
    assert results == [number * 10 for number in range(10)]
    assert done[-1] == 0, "all others were done while the first one waited"


async def test_an_error_comes_out_in_its_place_and_ends_the_others():
    ended = []

    async def work(number):
        if number == 1:
            raise ValueError("one")
        try:
            if number > 1:
                await asyncio.Event().wait()
        finally:
            ended.append(number)
        return number

    results = in_order(iter(range(100)), work, at_once=3)
    assert await anext(results) == 0
    with pytest.raises(ValueError, match="one"):
        await anext(results)
    assert set(ended) == {0, 2, 3}


async def test_things_are_drawn_only_as_they_are_needed():
    drawn = []

    def things():
        for number in range(100):
            drawn.append(number)
            yield number

    async def work(number):
        return number

    results = in_order(things(), work, at_once=2)
    assert await anext(results) == 0
    assert len(drawn) <= 4
    await results.aclose()


async def test_nothing_gives_nothing():
    assert [result async for result in in_order(iter(()), asyncio.sleep, at_once=2)] == []
