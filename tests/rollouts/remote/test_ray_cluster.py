"""The pipeline on a real cluster of two nodes, which loses actors and a node on the way."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil
import pytest

from rolecraft import FunctionModel, Task
from rolecraft.errors import ModelUnavailable
from rolecraft.models.doubles import ModelCall
from rolecraft.rollouts import (
    PipelineSettings,
    Rollout,
    ScenarioStages,
    StageTimeout,
    rollouts,
)
from rolecraft.rollouts.remote import RayStages, WorkerLost, _workers
from rolecraft.scenarios.relay import relay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("sent_along"),
    # Ray's, of its own sockets and processes.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
# Files of signs are a matter of microseconds.
# ruff: noqa: ASYNC240

PATIENCE = 120.0
QUICK = PipelineSettings(live=8, attempts=3, backoff_seconds=0.0)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def until(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)
    return found


async def soon(holds: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(until, holds)


async def played(stages: Any, items: Any, settings: PipelineSettings = QUICK) -> list[Any]:
    async with aclosing(rollouts(stages, items, settings)) as done:
        return sorted([rollout async for rollout in done], key=lambda rollout: rollout.index)


# --- a scenario that waits, and leaves signs in a folder -----------------------------------------


def relay_that_waits(
    folder: Path, *, role: str = "planner", **options: Any
) -> Callable[[], ScenarioStages]:
    """Makes stages of `relay`, played without fault; `role` waits for a file `go`."""

    async def answer(call: ModelCall) -> str:
        import ray

        node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"
        (folder / f"{node} {os.getpid()}").touch()
        with (folder / "asked").open("a") as file:
            file.write(f"{call.role}\n")
        while call.role == role and not (folder / "go").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        asked = call.messages[-1].content
        if sums := re.search(r"value (\d) plus (\d)", asked):
            return str((int(sums[1]) + int(sums[2])) % 5)
        return asked.split()[1]

    return lambda: ScenarioStages(relay, model=FunctionModel(answer, keep_calls=False), **options)


def seen(folder: Path) -> dict[str, int]:
    """From nodes to the process on it, of all that have begun to answer."""
    signs = [path.name.split() for path in folder.glob("* *")]
    return {node: int(pid) for node, pid in signs}


def as_bytes(results: list[Rollout[Task, Any]], folder: Path) -> list[bytes]:
    folder.mkdir()
    files = [result.episode.trajectory.save(folder / f"{result.index}.jsonl") for result in results]
    return [file.read_bytes() for file in files]


async def test_a_node_that_is_killed_in_the_middle_costs_no_result(
    nodes: Any, tmp_path: Path
) -> None:
    tasks = relay.tasks.sample(24)
    signs = tmp_path / "signs"
    signs.mkdir()
    stages = RayStages(relay_that_waits(signs), workers=2, places=4)
    with nodes.another() as node:
        playing = asyncio.create_task(played(stages, tasks))
        await soon(lambda: len(seen(signs)) == 2)
        doomed = seen(signs)[node.node_id]
        raylet = node.all_processes["raylet"][0].process
        raylet.kill()
        raylet.wait()  # a zombie would keep its workers from seeing that it is dead
        await soon(lambda: not alive(doomed))
        (signs / "go").touch()
        results = await playing

    assert [result.index for result in results] == list(range(24))
    assert {result.ended for result in results} == {"finished"}
    assert sum(result.attempts == 2 for result in results) == 4  # half of the living
    assert {result.reward for result in results} == {1.0}
    undisturbed = await played(relay_that_waits(signs)(), tasks)
    assert [r.episode for r in results] == [r.episode for r in undisturbed]
    assert as_bytes(results, tmp_path / "a") == as_bytes(undisturbed, tmp_path / "b")
    assert [r.trajectory for r in results] == [r.trajectory for r in undisturbed]


async def test_what_a_lost_worker_has_in_a_journal_is_gone_on_with(
    nodes: Any, tmp_path: Path
) -> None:
    tasks = relay.tasks.sample(4)
    signs = tmp_path / "signs"
    signs.mkdir()

    def journal(task: Task) -> Path:
        return tmp_path / f"{task.seed}.jsonl"

    def asked(role: str) -> int:
        return (signs / "asked").read_text().split().count(role)

    (signs / "asked").touch()
    make = relay_that_waits(signs, role="executor", journal=journal)
    playing = asyncio.create_task(played(RayStages(make, workers=1), tasks))
    await soon(lambda: asked("executor") == 4)
    (pid,) = seen(signs).values()
    os.kill(pid, 9)
    (signs / "go").touch()
    results = await playing
    assert {(result.ended, result.reward) for result in results} == {("finished", 1.0)}
    assert {result.attempts for result in results} == {2}
    assert (asked("planner"), asked("executor")) == (4, 8)


# --- stages that do as an item says --------------------------------------------------------------


class Obedient:
    """Stages for items that say what to do in which stage. Leaves signs of what is alive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def __aenter__(self) -> Obedient:
        (self.folder / f"entered {os.getpid()}").touch()
        return self

    async def __aexit__(self, *_: object) -> None:
        (self.folder / f"left {os.getpid()}").touch()

    async def prepare(self, item: dict[str, Any]) -> Path:
        sign = self.folder / f"alive {item['n']} {os.getpid()}"
        sign.touch()
        try:
            await self.act(item, "prepare")
        except BaseException:
            sign.unlink()
            raise
        return sign

    async def run(self, item: dict[str, Any], live: Path) -> None:
        await self.act(item, "run")

    async def grade(self, item: dict[str, Any], live: Path) -> tuple[int, int]:
        await self.act(item, "grade")
        return item["n"], os.getpid()

    async def close(self, item: dict[str, Any], live: Path) -> None:
        live.unlink()
        await self.act(item, "close")

    async def act(self, item: dict[str, Any], stage: str) -> None:
        does = item.get(stage)
        if isinstance(does, Exception):
            raise does
        if does is not None:
            await does(self.folder)


async def for_ever(folder: Path) -> None:
    await asyncio.Event().wait()


async def dies_once(folder: Path) -> None:
    if not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), 9)


async def blocks(folder: Path) -> None:
    if not (folder / "blocked").exists():
        (folder / "blocked").touch()
        time.sleep(3600)  # noqa: ASYNC251 - what it must not do


async def test_an_actor_that_dies_is_started_again_and_its_items_are_tried_again(
    nodes: Any, tmp_path: Path
) -> None:
    items = [{"n": n, "run": dies_once if n == 5 else None} for n in range(20)]
    results = await played(RayStages(Obedient(tmp_path), workers=1), items)
    assert [result.episode[0] for result in results] == list(range(20))
    assert {result.ended for result in results} == {"finished"}
    assert results[5].attempts == 2
    assert len(list(tmp_path.glob("entered *"))) == 2
    assert len(list(tmp_path.glob("left *"))) == 1


async def test_an_item_that_always_kills_its_actor_ends_as_lost(nodes: Any, tmp_path: Path) -> None:
    async def dies(folder: Path) -> None:
        os.kill(os.getpid(), 9)

    settings = PipelineSettings(live=1, attempts=2, backoff_seconds=0.0)
    results = await played(
        RayStages(Obedient(tmp_path), workers=1), [{"n": 0, "run": dies}, {"n": 1}], settings
    )
    assert [result.ended for result in results] == ["environment", "finished"]
    assert isinstance(results[0].error, WorkerLost)
    assert results[0].attempts == 2
    assert not results[0].says_something


async def test_what_a_stage_raises_there_is_what_it_raises_here(nodes: Any, tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [
        {"n": 0, "prepare": ValueError("no")},
        {"n": 1, "run": ValueError("no")},
        {"n": 2, "run": ModelUnavailable("busy", status=503)},
        {"n": 3, "grade": ValueError("no")},
        {"n": 4, "close": ValueError("no")},
        {"n": 5, "run": for_ever},
        {"n": 6, "prepare": for_ever},
        {"n": 7},
    ]
    settings = PipelineSettings(live=8, attempts=1, run_seconds=10.0, prepare_seconds=10.0)
    results = await played(RayStages(Obedient(tmp_path), workers=1), items, settings)
    local = await played(Obedient(tmp_path), items, settings)
    assert [r.ended for r in results] == [r.ended for r in local]
    assert [type(r.error) for r in results] == [type(r.error) for r in local]
    assert [str(r.error) for r in results] == [str(r.error) for r in local]
    assert isinstance(results[4].close_error, ValueError)
    assert isinstance(results[5].error, StageTimeout)
    assert not list(tmp_path.glob("alive *"))


async def test_leaving_the_iterator_closes_what_is_alive_there_and_ends_the_actors(
    nodes: Any, tmp_path: Path
) -> None:
    items = ({"n": n, "run": for_ever if n else None} for n in range(99))
    done = rollouts(RayStages(Obedient(tmp_path), workers=1), items, QUICK)
    async with aclosing(done):
        async for rollout in done:
            assert rollout.index == 0
            break
        await soon(lambda: len(list(tmp_path.glob("alive *"))) == 8)
    assert not list(tmp_path.glob("alive *"))
    (sign,) = tmp_path.glob("left *")
    await soon(lambda: not alive(int(sign.name.split()[1])))


async def test_a_worker_whose_loop_is_blocked_is_replaced(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_workers, "PING_SECONDS", 0.2)
    monkeypatch.setattr(_workers, "SILENCE_SECONDS", 15.0)
    items = [{"n": n, "run": blocks if n == 3 else None} for n in range(8)]
    results = await played(RayStages(Obedient(tmp_path), workers=1), items)
    assert [result.episode[0] for result in results] == list(range(8))
    assert results[3].attempts == 2


async def test_synchronous_tools_do_not_block_the_loop_of_their_actor(
    nodes: Any, tmp_path: Path
) -> None:
    """One item waits in a synchronous tool for what another does in the loop of the same actor."""
    from rolecraft.actions._threads import in_thread

    def waits(folder: Path) -> None:
        while len(list(folder.glob("tick *"))) < 20:
            time.sleep(0.01)

    async def in_a_tool(folder: Path) -> None:
        await in_thread(waits, folder=folder)

    async def ticks(folder: Path) -> None:
        for n in range(20):
            (folder / f"tick {n}").touch()
            await asyncio.sleep(0)

    items = [{"n": n, "run": in_a_tool} for n in range(4)] + [{"n": 4, "run": ticks}]
    results = await played(RayStages(Obedient(tmp_path), workers=1), items)
    assert [result.ended for result in results] == ["finished"] * 5
    assert len({result.episode[1] for result in results}) == 1


async def test_more_items_than_places_wait_for_one(nodes: Any, tmp_path: Path) -> None:
    async def sees(folder: Path) -> None:
        (folder / f"saw {len(list(folder.glob('alive *')))}").touch()
        await asyncio.sleep(0.01)

    items = [{"n": n, "run": sees} for n in range(20)]
    results = await played(RayStages(Obedient(tmp_path), workers=1, places=3), items)
    assert [result.ended for result in results] == ["finished"] * 20
    assert max(int(path.name.split()[1]) for path in tmp_path.glob("saw *")) <= 3


async def test_a_source_may_wait_for_results_of_the_cluster(nodes: Any, tmp_path: Path) -> None:
    asked: asyncio.Queue[int | None] = asyncio.Queue()

    async def items() -> AsyncIterator[dict[str, Any]]:
        while (n := await asked.get()) is not None:
            yield {"n": n}

    asked.put_nowait(0)
    order = []
    async with aclosing(rollouts(RayStages(Obedient(tmp_path)), items(), QUICK)) as done:
        async for rollout in done:
            order.append(rollout.episode[0])
            asked.put_nowait(order[-1] + 1 if order[-1] < 4 else None)
    assert order == [0, 1, 2, 3, 4]
