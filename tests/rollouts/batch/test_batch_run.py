"""R3, R7, R9, R13: items under way at the same time, each on its own, and what is told of them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Role, Team, tool
from rolecraft.models import Completion
from rolecraft.rollouts.batch.ledger import RETRYABLE

BEGUN, TICKS = threading.Event(), threading.Event()


@tool
def slow(query: str) -> str:
    """Blocks its thread until another task has ticked fifty times meanwhile."""
    BEGUN.set()
    assert TICKS.wait(60)
    return query


async def test_r3_a_tool_that_blocks_stops_no_other_task(bench: Any, answers: Any) -> None:
    BEGUN.clear()
    TICKS.clear()
    bench.write(["find a", "find b"])
    model = answers(called="slow")
    running = asyncio.ensure_future(bench.run(Team([Role(name="R", tools=[slow])]), model=model))
    waiting = asyncio.ensure_future(asyncio.to_thread(BEGUN.wait, 60))
    await asyncio.wait({waiting, running}, return_when=asyncio.FIRST_COMPLETED)
    for _ in range(50):
        await asyncio.sleep(0.001)
    TICKS.set()
    report = await running
    assert report.statistics.tools[0].success == 2


class Hang(Action):
    async def run(self, history: Any) -> str:
        if "hangs" in history[-1].content:
            await asyncio.Event().wait()
        return "done"


async def test_r7_an_item_that_hangs_ends_at_its_deadline(bench: Any) -> None:
    bench.write(["a", "b hangs", "c"])
    report = await bench.run(Team([Role(name="R", actions=[Hang])]), seconds=4.0, attempts=2)
    last = {entry.number: entry for entry in bench.entries}
    assert [(last[n].status, last[n].ended) for n in range(3)] == [
        ("ok", "finished"),
        (RETRYABLE, "seconds"),
        ("ok", "finished"),
    ]
    assert report.left == 1


class NoEnvironment(dict):  # type: ignore[type-arg]
    def __getitem__(self, name: str) -> str:
        raise AssertionError(f"read {name}")

    get = __contains__ = __getitem__  # type: ignore[assignment]


async def test_r9_no_environment_variable_is_read(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(["a", "find b"])
    monkeypatch.setattr(os, "environ", NoEnvironment())
    # Libraries, such as that of Parquet, may read some.
    assert (await bench.run(formats=("sharegpt", "openai"))).ran == 2


async def test_r13_progress_is_events_and_nothing_is_printed(
    bench: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    bench.write(["a", "b"])
    await bench.run()
    told = [event.to_dict() for event in bench.events]
    assert [event["what"] for event in told] == ["begins", "item", "item", "written", "ends"]
    assert told[0] == {"what": "begins", "done": 0, "total": 2, "calls": 0, "tokens": 0}
    assert told[2]["done"] == 2
    assert told[2]["status"] == "ok"
    assert told[3]["samples"] == 2
    json.dumps(told)
    assert capfd.readouterr() == ("", "")


async def test_items_share_no_memory(bench: Any) -> None:
    """Each has roles of its own: what one heard, no other is asked with."""
    heard: list[int] = []

    def answer(call: Any) -> Completion:
        heard.append(len(call.messages))
        return Completion(text="yes", reasoning="why", tool_calls=[])

    bench.write([f"p{n}" for n in range(6)])
    await bench.run(model=FunctionModel(answer))
    assert heard == [2] * 6  # the system prompt and the row
