"""One measurement of one framework, in a process of its own. Prints one line of JSON.

    python measure.py imports "import rolecraft"
    python measure.py turn autogen

A framework's part, `with_NAME.py`, has these, all with a stub model in the process:

    new()                       a new agent with one action or tool
    await turn()                one turn of a ready agent, without a tool, in a new conversation
    await tool_turn()           one in which the model calls a tool, gets its result, and answers
    await exchange(messages)    two agents answer each other; the number of messages there were

and ours `limited_turn`, `timed_turn` and `crowd` besides.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import resource
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

BATCHES = 15
BATCH_SECONDS = 0.05


def imports(statement: str) -> dict[str, float]:
    """Time, modules and memory (MiB) that a statement adds to a bare interpreter."""
    code = compile(statement, "<statement>", "exec")
    modules, memory = len(sys.modules), peak_mib()
    start = time.perf_counter()
    exec(code, {})
    seconds = time.perf_counter() - start
    return {
        "import_ms": seconds * 1e3,
        "modules": len(sys.modules) - modules,
        "import_mib": peak_mib() - memory,
    }


def new(part: Any) -> dict[str, float]:
    """Microseconds to make an agent, and KiB that it keeps."""
    part.new()
    seconds = batches(lambda count: timed(part.new, count))
    kept, agents = 200, []
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(kept):
        agents.append(part.new())  # noqa: PERF401 - the list's own growth stays out of the way
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"new_us": seconds * 1e6, "new_kib": (after - before) / kept / 1024}


def turn(part: Any) -> dict[str, float]:
    """Microseconds of a turn, of every kind that the framework's part has."""
    kinds = ("turn", "limited_turn", "timed_turn", "tool_turn")
    return {
        f"{kind}_us": seconds_of(getattr(part, kind)) * 1e6 for kind in kinds if hasattr(part, kind)
    }


def seconds_of(action: Callable[[], Awaitable[object]]) -> float:
    async def measure() -> float:
        await action()  # what is built lazily is built here
        return await batches_of(action)

    return asyncio.run(measure())


def exchange(part: Any) -> dict[str, float]:
    """Seconds of a 1,000-message exchange, and how its cost per message grows from 100 on."""

    async def measure() -> tuple[float, float]:
        await part.exchange(20)
        return await best_of(part, 100, 15), await best_of(part, 1000, 5)

    short, long = asyncio.run(measure())
    return {
        "exchange_100_us": short / 100 * 1e6,
        "exchange_1000_us": long / 1000 * 1e6,
        "exchange_1000_s": long,
        "growth": (long / 1000) / (short / 100),
    }


def long_run(part: Any) -> dict[str, float]:
    """Seconds and peak memory (MiB) of 100,000 messages in one environment."""

    async def measure() -> tuple[float, float]:
        await part.exchange(1000)
        gc.collect()
        memory, start = peak_mib(), time.perf_counter()
        assert await part.exchange(100_000) == 100_000
        return time.perf_counter() - start, peak_mib() - memory

    seconds, memory = asyncio.run(measure())
    return {"long_s": seconds, "long_mib": memory}


def crowd(part: Any) -> dict[str, float]:
    """Seconds and peak memory (MiB) of 200 roles that exchange 100,000 addressed messages."""

    async def measure() -> tuple[float, float]:
        await part.crowd(200, 1000)
        gc.collect()
        memory, start = peak_mib(), time.perf_counter()
        assert await part.crowd(200, 100_000) == 100_000
        return time.perf_counter() - start, peak_mib() - memory

    seconds, memory = asyncio.run(measure())
    return {"crowd_s": seconds, "crowd_mib": memory}


async def best_of(part: Any, messages: int, most: int) -> float:
    """Seconds of the best of up to `most` exchanges; one is enough if it takes seconds."""
    seconds: list[float] = []
    while len(seconds) < most and sum(seconds) < 3:
        gc.collect()
        start = time.perf_counter()
        happened = await part.exchange(messages)
        seconds.append(time.perf_counter() - start)
        assert happened == messages, f"{happened} messages instead of {messages}"
    return min(seconds)


def timed(action: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        action()
    return time.perf_counter() - start


def batches(run: Callable[[int], float]) -> float:
    """Seconds per call in the best of several batches that are long enough for the clock."""
    count = 1
    while (took := run(count)) < BATCH_SECONDS / 4:
        count *= 4
    count = max(1, round(count * BATCH_SECONDS / took))
    return min(run(count) / count for _ in range(BATCHES))


async def batches_of(action: Callable[[], Awaitable[object]]) -> float:
    """`batches` for a coroutine function."""

    async def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            await action()
        return time.perf_counter() - start

    count = 1
    while (took := await run(count)) < BATCH_SECONDS / 4:
        count *= 4
    count = max(1, round(count * BATCH_SECONDS / took))
    return min([await run(count) / count for _ in range(BATCHES)])


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux


if __name__ == "__main__":
    what, of = sys.argv[1:]
    if what == "imports":
        result = imports(of)
    else:
        measures = {
            "new": new,
            "turn": turn,
            "exchange": exchange,
            "long_run": long_run,
            "crowd": crowd,
        }
        result = measures[what](importlib.import_module(f"with_{of}"))
    print(json.dumps(result))
