"""Long runs cost as much for each message as short ones. Ratios only: machines differ."""

from __future__ import annotations

import gc
import time
import tracemalloc
from pathlib import Path
from typing import Any

from rolecraft import Action, Environment, FunctionModel, Role, UserRequirement
from rolecraft.models import Completion

STUB = FunctionModel(lambda call: Completion(text="ok"), keep_calls=False)


class Ping(Action):
    """Answer the latest message."""

    async def run(self, history: Any) -> str:
        return await self.ask(history[-1].content)


class Pong(Ping): ...


def environment(journal: Path | None = None) -> Environment:
    ping = Role(name="ping", actions=[Ping], watch=[UserRequirement, Pong])
    pong = Role(name="pong", actions=[Pong], watch=[Ping])
    return Environment([ping, pong], model=STUB, journal=journal)


async def exchange(messages: int, journal: Path | None = None) -> float:
    """CPU seconds for each message of one exchange, with everything recorded."""
    env = environment(journal)
    env.publish_message("go")
    gc.disable()  # its pauses come at random
    start = time.thread_time()
    await env.run(rounds=messages - 1)
    seconds = time.thread_time() - start
    gc.enable()
    assert env.messages == messages
    env.close()
    return seconds / messages


async def test_a_message_costs_the_same_late_in_an_exchange_as_early(tmp_path: Path) -> None:
    """Most frameworks copy or compare the whole history in each turn."""
    short = long = float("inf")
    for number in range(8):  # a busy machine makes some tries slow, never too fast
        short = min(short, await exchange(100, tmp_path / f"short {number}.jsonl"))
        long = min(long, await exchange(1000, tmp_path / f"long {number}.jsonl"))
        if number > 1 and long <= 1.5 * short:
            break
    assert long <= 1.5 * short


async def test_a_message_leaves_little_behind_when_a_journal_keeps_the_record(
    tmp_path: Path,
) -> None:
    env = environment(tmp_path / "run.jsonl")
    env.publish_message("go")
    await env.run(rounds=500)
    gc.collect()
    tracemalloc.start()
    await env.run(rounds=2000)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    env.close()
    assert kept / 2000 <= 1000  # bytes: the message itself, and its place in two memories
