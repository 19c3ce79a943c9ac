"""A hundred thousand items cost no more memory than a thousand."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from rolecraft.rollouts import PipelineSettings, rollouts


class Stages:
    async def prepare(self, item: bytes) -> bytes:
        return item

    async def run(self, item: bytes, live: bytes) -> None:
        return None

    async def grade(self, item: bytes, live: bytes) -> int:
        return len(item)

    async def close(self, item: bytes, live: bytes) -> None:
        return None


@pytest.mark.slow
async def test_memory_does_not_grow_with_the_number_of_items() -> None:
    def items(count: int) -> Iterator[bytes]:
        return (bytes(1000) for _ in range(count))

    async def peak(count: int) -> int:
        gc.collect()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        number = 0
        async with aclosing(rollouts(Stages(), items(count), PipelineSettings(live=64))) as done:
            async for rollout in done:
                assert rollout.episode == 1000
                number += 1
        assert number == count
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    try:
        await peak(1000)
        few, many = await peak(2000), await peak(100_000)
    finally:
        tracemalloc.stop()
    assert many < 2 * few + 2**20
