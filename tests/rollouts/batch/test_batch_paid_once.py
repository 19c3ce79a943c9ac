"""What was paid for is neither lost nor paid again without end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rolecraft import Action, Role, Scenario, Task, TaskEnvironment, Team
from rolecraft.environments.row_files import read_rows
from rolecraft.errors import UsageError
from rolecraft.rewards import reward
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.items import STRETCH, items_left
from rolecraft.rollouts.batch.ledger import PERMANENT, RETRYABLE, Entry, Ledger
from rolecraft.rollouts.batch.statistics import statistics
from rolecraft.rollouts.batch.survey import survey
from rolecraft.sandboxes import SandboxSpec
from rolecraft.trajectories import Signal


class AskAndHang(Action):
    async def run(self, history: Any) -> str:
        await self.ask("first")
        await asyncio.Event().wait()
        return "never"


class CancelItself(Action):
    async def run(self, history: Any) -> str:
        if "cancels" in history[-1].content:
            raise asyncio.CancelledError
        return "done"


class Speak(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(history[-1].content)


async def test_an_item_that_always_runs_into_its_deadline_is_not_paid_for_without_end(
    bench: Any,
) -> None:
    bench.write(["a"])
    found = []
    for _ in range(3):
        team = Team([Role(name="R", actions=[AskAndHang])])
        report = await bench.run(team, seconds=2.0, attempts=2)
        found.append((report.ran, report.left, bench.entries[-1].status))
    assert found == [(1, 1, RETRYABLE), (1, 0, PERMANENT), (0, 0, PERMANENT)]
    assert bench.model.asked == ["first"] * 2
    assert bench.entries[-1].timeouts == 2
    assert [row["status"] for row in bench.lines("aside.jsonl")] == [PERMANENT]


async def test_an_item_that_is_cancelled_from_inside_is_entered_and_told(bench: Any) -> None:
    bench.write(["a", "cancels"])
    report = await bench.run(Team([Role(name="R", actions=[CancelItself])]))
    last = {entry.number: entry for entry in bench.entries}
    assert (last[1].status, last[1].ended) == (RETRYABLE, "cancelled")
    assert report.left == 1
    assert {e.number for e in bench.events if e.what == "item"} == {0, 1}


async def test_a_broken_line_in_the_middle_of_the_ledger_costs_no_sample(bench: Any) -> None:
    bench.write(["a", "b", "c"])
    await bench.run()
    ledger = bench.out / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    lines[2] = b"#" * (len(lines[2]) - 1) + b"\n"
    ledger.write_bytes(b"".join(lines))
    report = await bench.run()
    assert (report.ran, report.repairs.broken, report.repairs.found_again) == (0, [3], 1)
    assert (len(bench.samples()), len(bench.model.asked)) == (3, 3)
    assert (await bench.run()).repairs.found_again == 0


def test_calls_without_a_price_are_counted_beside_the_sum() -> None:
    entries = [
        Entry(row="1" * 64, calls=2, usd=0.5, unpriced=1),
        Entry(row="2" * 64, calls=3),  # of before they were counted
    ]
    found = statistics(entries, BatchConfig())
    assert (found.usd, found.unpriced) == (0.5, 4)


# --- a scenario has its own sandboxes -------------------------------------------------------------


class Ungraded(TaskEnvironment):
    async def grade(self) -> list[Signal]:
        return []


@reward
def one(signals: Any) -> float:
    return 1.0


class Nothing:
    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        return []


def scenario() -> Scenario:
    return Scenario(
        name="speaking",
        team=lambda: [Role(name="R", actions=[Speak])],
        environment=Ungraded,
        tasks=Nothing(),
        reward=one,
    )


@pytest.mark.parametrize("given", [{"provider": object()}, {"sandbox": SandboxSpec()}])
async def test_sandboxes_for_a_scenario_are_refused(bench: Any, given: dict[str, Any]) -> None:
    bench.write(["a"])
    with pytest.raises(UsageError, match="is for a team"):
        await bench.run(scenario(), **given)


async def test_a_column_named_sandbox_is_the_scenarios_own(bench: Any) -> None:
    bench.write([{"prompt": "a", "sandbox": {"of": "its own"}}])
    await bench.run(scenario())
    assert bench.statistics["statuses"] == {"ok": 1}


# --- other tasks go on ----------------------------------------------------------------------------


async def test_other_tasks_have_their_turn_while_finished_rows_are_passed_over(bench: Any) -> None:
    """The ticks are counted, not timed: one for each stretch of rows."""
    bench.write([{"prompt": ""}] * 5000)
    await bench.run()
    rows, config, ticks = list(read_rows(bench.rows)), BatchConfig(), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    with Ledger(bench.out / "ledger.jsonl") as ledger:
        found = survey(rows, config.volatile)
        ticking = asyncio.ensure_future(tick())
        left = items_left(rows, found, ledger, config, discard=lambda entry: None)
        assert [item async for item in left] == []
        ticking.cancel()
    assert ticks >= 5000 // STRETCH
