"""Long runs cost as much for each message as short ones. Ratios only: machines differ."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import uuid
from collections.abc import Callable
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


def test_a_message_costs_the_same_late_in_an_exchange_as_early(tmp_path: Path, growth: Any) -> None:
    """Most frameworks copy or compare the whole history in each turn."""

    def exchange(messages: int) -> Callable[[], object]:
        """One exchange, with everything recorded."""
        env = environment(tmp_path / f"{uuid.uuid4()}.jsonl")
        env.publish_message("go")

        def work() -> None:
            asyncio.run(env.run(rounds=messages - 1))
            assert env.messages == messages
            env.close()

        return work

    growth(exchange, 100, 1_000, at_most=10 * 2)


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
