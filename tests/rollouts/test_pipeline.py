"""Every item that is taken in comes out exactly once, whatever its stages do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import pytest

from rolecraft.errors import ModelUnavailable, SandboxError, UsageError
from rolecraft.rollouts import (
    PipelineEvent,
    PipelineSettings,
    StageCancelled,
    StageTimeout,
    rollouts,
)

QUICK = PipelineSettings(live=4, attempts=1)


class Counting:
    """Stages that do as an item says: a dictionary from a stage to what it does there."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.most = 0
        self.closed: list[int] = []
        self.began: list[int] = []

    async def prepare(self, item: dict[str, Any]) -> object:
        self.began.append(item["n"])
        self.alive.add(item["n"])
        self.most = max(self.most, len(self.alive))
        try:
            await self.act(item, "prepare")
        except BaseException:
            self.alive.discard(item["n"])
            raise
        return object()

    async def run(self, item: dict[str, Any], live: object) -> None:
        await self.act(item, "run")

    async def grade(self, item: dict[str, Any], live: object) -> int:
        await self.act(item, "grade")
        return int(item["n"])

    async def close(self, item: dict[str, Any], live: object) -> None:
        try:
            await self.act(item, "close")
        finally:
            self.closed.append(item["n"])
            self.alive.discard(item["n"])

    async def act(self, item: dict[str, Any], stage: str) -> None:
        does = item.get(stage)
        if isinstance(does, BaseException):
            raise does
        if callable(does):
            await does()
        else:
            await asyncio.sleep(0)


async def played(stages: Counting, items: Any, settings: Any = QUICK, **more: Any) -> Any:
    async with aclosing(rollouts(stages, items, settings, **more)) as done:
        return [rollout async for rollout in done]


async def for_ever() -> None:
    await asyncio.Event().wait()


class Deaf:
    """Work that does not end when it is cancelled, until the test says so."""

    def __init__(self) -> None:
        self.may_end = False

    async def __call__(self) -> None:
        while not self.may_end:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


@pytest.fixture
async def deaf() -> AsyncIterator[Deaf]:
    deaf = Deaf()
    yield deaf
    deaf.may_end = True
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.01)


async def test_each_item_comes_out_once_with_its_number() -> None:
    stages = Counting()
    results = await played(stages, [{"n": n} for n in range(20)])
    assert sorted((r.index, r.item["n"], r.episode) for r in results) == [
        (n, n, n) for n in range(20)
    ]
    assert {r.ended for r in results} == {"finished"}
    assert sorted(stages.closed) == list(range(20))
    assert stages.most == 4


@pytest.mark.parametrize(
    ("stage", "error", "ended"),
    [
        ("prepare", ValueError("no"), "environment"),
        ("prepare", SandboxError("no"), "environment"),
        ("run", ValueError("no"), "team"),
        ("run", SandboxError("lost"), "environment"),
        ("run", ModelUnavailable("no"), "model"),
        ("grade", ValueError("no"), "grading"),
        ("run", asyncio.CancelledError(), "cancelled"),
    ],
)
async def test_what_a_stage_raises_is_that_items_result_only(
    stage: str, error: BaseException, ended: str
) -> None:
    stages = Counting()
    results = await played(
        stages, [{"n": n, **({stage: error} if n == 3 else {})} for n in range(9)]
    )
    assert sorted(r.index for r in results) == list(range(9))
    (failed,) = [r for r in results if r.ended != "finished"]
    assert (failed.index, failed.ended, failed.episode, failed.reward) == (3, ended, None, None)
    if isinstance(error, Exception):
        assert failed.error is error
    else:
        assert isinstance(failed.error, StageCancelled)
    assert not stages.alive


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize(
    ("stage", "ended"),
    [("prepare", "environment"), ("run", "seconds"), ("grade", "grading"), ("close", "finished")],
)
async def test_a_stage_that_hangs_costs_its_own_item_only(
    stage: str, ended: str, listens: bool, deaf: Deaf
) -> None:
    hang = for_ever if listens else deaf
    stages = Counting()
    # Only what hangs has little time: its stage, and as much again to end when it is cancelled.
    limits: dict[str, Any] = {"close_seconds": 0.2, f"{stage}_seconds": 0.2}
    settings = PipelineSettings(live=2, attempts=1, **limits)
    results = await played(
        stages, [{"n": n, **({stage: hang} if n == 1 else {})} for n in range(6)], settings
    )
    assert sorted(r.index for r in results) == list(range(6))
    (hung,) = [r for r in results if r.index == 1]
    assert hung.ended == ended
    error = hung.close_error if stage == "close" else hung.error
    assert isinstance(error, StageTimeout)
    assert all(r.ended == "finished" for r in results if r is not hung)


@pytest.mark.parametrize(("stage", "ended"), [("run", "seconds"), ("grade", "grading")])
async def test_what_comes_after_the_time_of_a_stage_does_not_count(stage: str, ended: str) -> None:
    """The work that swallows its cancellation and returns late has crossed its limit."""

    async def late() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    stages = Counting()
    limit: dict[str, Any] = {f"{stage}_seconds": 0.05}
    settings = PipelineSettings(live=2, attempts=1, **limit)
    (result,) = await played(stages, [{"n": 0, stage: late}], settings)
    assert (result.ended, result.episode) == (ended, None)
    assert isinstance(result.error, StageTimeout)
    assert stages.closed == [0]


async def test_leaving_the_iterator_cancels_and_closes_everything() -> None:
    stages = Counting()
    before = asyncio.all_tasks()
    async with aclosing(
        rollouts(stages, ({"n": n, "run": for_ever if n else None} for n in range(99)), QUICK)
    ) as done:
        async for rollout in done:
            assert rollout.index == 0
            break
    assert not stages.alive
    assert sorted(stages.closed) == sorted(stages.began)
    assert asyncio.all_tasks() == before


async def test_a_loop_that_is_left_without_more_is_wound_up_too() -> None:
    stages = Counting()
    items = ({"n": n, "run": for_ever if n else None} for n in range(99))
    before = asyncio.all_tasks()
    async for rollout in rollouts(stages, items, QUICK):
        assert rollout.index == 0
        break
    async with asyncio.timeout(60):
        while stages.alive or asyncio.all_tasks() != before:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    assert sorted(stages.closed) == sorted(stages.began)


async def test_nothing_is_read_before_there_is_room_for_it() -> None:
    read: list[int] = []

    def items() -> Any:
        for n in range(1000):
            read.append(n)
            yield {"n": n}

    done = rollouts(Counting(), items(), PipelineSettings(live=4, intake=10))
    await anext(done)
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(read) <= 11
    await done.aclose()


async def test_items_may_come_from_an_async_iterator_that_waits_for_results() -> None:
    asked: asyncio.Queue[int | None] = asyncio.Queue()

    async def items() -> AsyncIterator[dict[str, Any]]:
        while (n := await asked.get()) is not None:
            yield {"n": n}

    asked.put_nowait(0)
    seen = []
    async with aclosing(rollouts(Counting(), items(), QUICK)) as done:
        async for rollout in done:
            seen.append(rollout.index)
            assert rollout.episode == rollout.index
            asked.put_nowait(rollout.index + 1 if rollout.index < 5 else None)
    assert seen == [0, 1, 2, 3, 4, 5]


async def test_what_reading_the_items_raises_comes_out_after_those_that_were_read() -> None:
    def items() -> Any:
        yield from ({"n": n} for n in range(5))
        raise OSError("the file is gone")

    done = rollouts(Counting(), items(), QUICK)
    seen = [(await anext(done)).index for _ in range(5)]
    with pytest.raises(OSError, match="the file is gone"):
        await anext(done)
    assert sorted(seen) == [0, 1, 2, 3, 4]


async def test_surroundings_that_fail_are_tried_again_and_the_teams_own_fault_is_not() -> None:
    tries: dict[str, int] = {"model": 0, "team": 0}

    def failing(kind: str, error: Exception) -> Any:
        async def act() -> None:
            tries[kind] += 1
            if tries[kind] < 3:
                raise error

        return act

    items = [
        {"n": 0, "run": failing("model", ModelUnavailable("busy"))},
        {"n": 1, "run": failing("team", ValueError("wrong"))},
    ]
    stages = Counting()
    heard: list[PipelineEvent] = []
    results = await played(
        stages,
        items,
        PipelineSettings(live=2, attempts=3, backoff_seconds=0.0),
        on_event=heard.append,
    )
    first, second = sorted(results, key=lambda r: r.index)
    assert (first.ended, first.attempts) == ("finished", 3)
    assert (second.ended, second.attempts) == ("team", 1)
    assert sorted(stages.closed) == [0, 0, 0, 1]
    assert [e.attempt for e in heard if e.what == "again"] == [1, 2]
    assert not stages.alive


async def test_what_on_event_raises_ends_the_pipeline_and_comes_out() -> None:
    stages = Counting()

    def refuse(event: PipelineEvent) -> None:
        if event.what == "done":
            raise UsageError("no more")

    with pytest.raises(UsageError, match="no more"):
        await played(stages, [{"n": n} for n in range(50)], on_event=refuse)
    assert not stages.alive


async def test_the_longest_goes_first_and_nobody_starves() -> None:
    stages = Counting()
    settings = PipelineSettings(live=1, intake=8, order="longest", patience=5)
    lengths = [1, *[5] * 30]
    await played(
        stages,
        [{"n": n} for n in range(31)],
        settings,
        predicted=lambda item: float(lengths[item["n"]]),
    )
    assert sorted(stages.began) == list(range(31))
    assert stages.began.index(0) == 5
