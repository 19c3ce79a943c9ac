"""Whatever fails in whichever stage: one result for each item, nothing left, never too many alive.

Faults are drawn at random for every stage of every item: it raises, hangs, goes on when it is
cancelled, is cancelled from inside, hangs in a thread, or is slow.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections import Counter
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.actions._threads import in_thread
from rolecraft.errors import ModelUnavailable, SandboxError
from rolecraft.rollouts import PipelineEvent, PipelineSettings, Rollout, rollouts

FAULTS = ("raise", "lost", "busy", "hang", "deaf", "cancel", "thread", "slow")
LIMITS = {"prepare_seconds": 0.02, "run_seconds": 0.02, "grade_seconds": 0.02, "close_seconds": 0.1}


class Faulty:
    """Stages that do to an item what `faults` says; each has a folder while it is alive."""

    def __init__(self, folder: Path, faults: dict[tuple[int, str], str]) -> None:
        self.folder, self.faults = folder, faults
        self.alive = self.most = 0
        self.opened: Counter[int] = Counter()
        self.closed: Counter[int] = Counter()
        self.over = threading.Event()

    async def prepare(self, item: int) -> Path:
        self.alive += 1
        self.most = max(self.most, self.alive)
        home = self.folder / f"{item}-{self.opened[item]}"
        try:
            await self.suffer(item, "prepare")
            home.mkdir()
        except BaseException:
            self.alive -= 1
            raise
        self.opened[item] += 1
        return home

    async def run(self, item: int, live: Path) -> None:
        await self.suffer(item, "run")

    async def grade(self, item: int, live: Path) -> int:
        await self.suffer(item, "grade")
        return item

    async def close(self, item: int, live: Path) -> None:
        try:
            await self.suffer(item, "close")
        finally:
            os.rmdir(live)
            self.closed[item] += 1
            self.alive -= 1

    async def suffer(self, item: int, stage: str) -> None:
        match self.faults.get((item, stage)):
            case "raise":
                raise ValueError(f"{stage} of {item}")
            case "lost":
                raise SandboxError(f"{stage} of {item}")
            case "busy":
                raise ModelUnavailable(f"{stage} of {item}")
            case "hang":
                await asyncio.Event().wait()
            case "deaf":  # it goes on as if nothing had happened
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                await asyncio.sleep(0)
            case "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            case "thread":
                await in_thread(self.over.wait, timeout=20.0)
            case "slow":
                await asyncio.sleep(0.01)
            case _:
                await asyncio.sleep(0)


def drawn(seed: int, items: int, share: float = 0.15) -> dict[tuple[int, str], str]:
    draw = random.Random(seed)
    return {
        (item, stage): draw.choice(FAULTS)
        for item in range(items)
        for stage in ("prepare", "run", "grade", "close")
        if draw.random() < share
    }


async def check(
    folder: Path, faults: dict[tuple[int, str], str], items: int, **limits: Any
) -> None:
    stages = Faulty(folder, faults)
    told: list[PipelineEvent] = []
    before = asyncio.all_tasks()
    how = PipelineSettings(backoff_seconds=0.0, **{**LIMITS, "attempts": 2, **limits})
    try:
        async with aclosing(rollouts(stages, range(items), how, on_event=told.append)) as done:
            results: list[Rollout[int, int]] = [each async for each in done]
    finally:
        stages.over.set()
    await wound_up(told, before)
    assert sorted(each.index for each in results) == list(range(items))
    assert all(each.item == each.index for each in results)
    for each in results:
        assert (each.episode is None) == (each.error is not None)
        assert each.episode in (None, each.item), "nobody has another's result"
    assert stages.closed == stages.opened, "each that was made was closed, once"
    assert stages.alive == 0
    assert stages.most <= how.live
    assert not os.listdir(folder)
    assert sorted(e.index for e in told if e.what == "done") == list(range(items))
    assert asyncio.all_tasks() == before
    clean = [n for n in range(items) if not any((n, stage) in faults for stage in
             ("prepare", "run", "grade", "close"))]  # fmt: skip
    unharmed = {each.index for each in results if each.ended == "finished" and each.attempts == 1}
    assert unharmed.issuperset(clean), "an item without a fault is not touched by the others'"


async def wound_up(told: list[PipelineEvent], before: set[Any]) -> None:
    """Wait for what was left behind because it did not end in time when it was cancelled.

    On a busy machine that may be work that was about to end; otherwise there is nothing to wait
    for: with its last result the pipeline is over.
    """
    if any(event.what == "left" for event in told):
        async with asyncio.timeout(60):
            while asyncio.all_tasks() != before:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.001)


def threads() -> int:
    """Threads for tools that are not idle."""
    from rolecraft.actions import _threads

    named = [each for each in threading.enumerate() if each.name == "rolecraft-tool"]
    return len(named) - len(_threads._idle)


async def test_a_thousand_items_with_faults_in_every_stage(tmp_path: Path) -> None:
    await check(tmp_path, drawn(7, 1000), 1000, live=64, run=40, grade=30, tool_workers=8)
    async with asyncio.timeout(60):
        while threads():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


@settings(max_examples=25, deadline=None)
@given(
    faults=st.dictionaries(
        st.tuples(st.integers(0, 7), st.sampled_from(["prepare", "run", "grade", "close"])),
        st.sampled_from(FAULTS),
        max_size=12,
    ),
    live=st.integers(1, 5),
    workers=st.tuples(*[st.none() | st.integers(1, 3)] * 3),
    tool_workers=st.none() | st.integers(1, 2),
)
def test_any_faults_with_any_workers(
    tmp_path_factory: pytest.TempPathFactory,
    faults: dict[tuple[int, str], str],
    live: int,
    workers: Any,
    tool_workers: int | None,
) -> None:
    prepare, run, grade = workers
    asyncio.run(
        check(
            tmp_path_factory.mktemp("faults"),
            faults,
            8,
            live=live,
            prepare=prepare,
            run=run,
            grade=grade,
            tool_workers=tool_workers,
        )
    )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    take=st.integers(0, 10),
    live=st.integers(1, 6),
)
def test_leaving_at_any_moment_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, take: int, live: int
) -> None:
    folder = tmp_path_factory.mktemp("left")

    async def leave() -> None:
        stages = Faulty(folder, drawn(seed, 40, share=0.3))
        before, told = asyncio.all_tasks(), list[PipelineEvent]()
        how = PipelineSettings(live=live, attempts=2, backoff_seconds=0.0, **LIMITS)  # type: ignore[arg-type]
        try:
            async with aclosing(rollouts(stages, range(40), how, on_event=told.append)) as done:
                for _ in range(take):
                    await anext(done)
        finally:
            stages.over.set()
        await wound_up(told, before)
        assert stages.closed == stages.opened
        assert stages.alive == 0
        assert asyncio.all_tasks() == before

    asyncio.run(leave())
    assert not os.listdir(folder)
