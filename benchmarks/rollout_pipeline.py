"""How far the rollout pipeline is from what the machines allow, on simulated latencies.

    python benchmarks/rollout_pipeline.py             # a table on stderr, JSON on stdout
    python benchmarks/rollout_pipeline.py --gate      # exit status 1 if a limit is crossed

Every resource is a first-come-first-served server with so many places: the model, the starting of
environments, the running of tools, and grading. Times are drawn (lognormal, tools with a heavy
tail) and slept through on a real event loop, where one simulated second takes `--tick` seconds.
What is compared differs in nothing but who waits for whom:

- `synchronous`: waves of as many environments as may be alive; in each all set up, then all ask
  the model, then all run their tools, …, then all grade;
- `workers`: a task for each trajectory that may run, each from set-up to grading;
- `pipeline`: `rolecraft.rollouts.rollouts`; `longest first` is the same with lengths that are
  predicted with an error of about a quarter.

`bound` is the physical lower bound: the longest of the longest single trajectory, the work of each
resource over its places (for the model with the first set-up before and the last grading after it)
and the environment-seconds over the budget of live ones.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from gate import Gate
from machine import machine

from rolecraft import FunctionModel, Role, Task, TaskEnvironment, tool
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.rollouts import PipelineSettings, rollouts
from rolecraft.trajectories import Signal

CALLS, CALL_SECONDS = 64, 0.05


@dataclass(frozen=True)
class Work:
    """What one trajectory needs, in simulated seconds."""

    prepare: float
    turns: tuple[tuple[float, float], ...]
    """Of each turn the model's time and the tool's."""
    grade: float
    predicted: float

    @property
    def seconds(self) -> float:
        return self.prepare + sum(map(sum, self.turns)) + self.grade


@dataclass(frozen=True)
class Places:
    """How much there is of everything."""

    model: int = 32
    prepare: int = 8
    tools: int = 64
    grade: int = 16
    running: int = 64
    """Trajectories whose roles may act at once: the width of `workers`, and of the stage `run`."""
    live: int = 96


def drawn(count: int, seed: int) -> list[Work]:
    draw = random.Random(seed)

    def lognormal(mean: float, sigma: float) -> float:
        return mean * draw.lognormvariate(-sigma * sigma / 2, sigma)

    works = []
    for _ in range(count):
        turns = max(1, min(40, round(lognormal(10, 0.6))))
        steps = tuple((lognormal(1.0, 0.5), lognormal(0.5, 1.2)) for _ in range(turns))
        predicted = turns * draw.lognormvariate(0, 0.25)
        works.append(Work(lognormal(3, 0.5), steps, lognormal(4, 0.5), predicted))
    return works


def bound(works: Sequence[Work], places: Places) -> float:
    model = sum(each for work in works for each, _ in work.turns)
    tools = sum(each for work in works for _, each in work.turns)
    first, last = min(work.prepare for work in works), min(work.grade for work in works)
    return max(
        max(work.seconds for work in works),
        first + model / places.model + last,
        sum(work.prepare for work in works) / places.prepare,
        tools / places.tools,
        sum(work.grade for work in works) / places.grade,
        sum(work.seconds for work in works) / places.live,
    )


class World:
    """The servers, and what was seen of the environments."""

    def __init__(self, places: Places, tick: float) -> None:
        self.places, self.tick = places, tick
        self.model, self.tools = asyncio.Semaphore(places.model), asyncio.Semaphore(places.tools)
        self.starts, self.graders = (
            asyncio.Semaphore(places.prepare),
            asyncio.Semaphore(places.grade),
        )
        self.alive = self.most = 0

    async def serve(self, server: asyncio.Semaphore, seconds: float) -> None:
        async with server:
            await asyncio.sleep(seconds * self.tick)

    async def prepare(self, item: Work) -> Work:
        self.alive += 1
        self.most = max(self.most, self.alive)
        await self.serve(self.starts, item.prepare)
        return item

    async def run(self, item: Work, live: Work) -> None:
        for model, tools in item.turns:
            await self.serve(self.model, model)
            await self.serve(self.tools, tools)

    async def grade(self, item: Work, live: Work) -> None:
        await self.serve(self.graders, item.grade)

    async def close(self, item: Work, live: Work) -> None:
        self.alive -= 1


async def synchronous(world: World, works: Sequence[Work]) -> None:
    width = world.places.running
    for start in range(0, len(works), width):
        wave = works[start : start + width]
        await asyncio.gather(*map(world.prepare, wave))
        for turn in range(max(len(work.turns) for work in wave)):
            acting = [work.turns[turn] for work in wave if turn < len(work.turns)]
            await asyncio.gather(*(world.serve(world.model, model) for model, _ in acting))
            await asyncio.gather(*(world.serve(world.tools, tools) for _, tools in acting))
        await asyncio.gather(*(world.grade(work, work) for work in wave))
        await asyncio.gather(*(world.close(work, work) for work in wave))


async def workers(world: World, works: Sequence[Work]) -> None:
    places = asyncio.Semaphore(world.places.running)

    async def whole(work: Work) -> None:
        async with places:
            await world.prepare(work)
            await world.run(work, work)
            await world.grade(work, work)
            await world.close(work, work)

    await asyncio.gather(*map(whole, works))


async def pipeline(world: World, works: Sequence[Work], *, longest: bool = False) -> None:
    places = world.places
    settings = PipelineSettings(
        live=places.live,
        run=places.running,
        order="longest" if longest else "given",
        intake=max(2 * places.live, 256),
    )
    predicted: Callable[[Work], float] | None = (lambda work: work.predicted) if longest else None
    number = 0
    async with aclosing(rollouts(world, works, settings, predicted=predicted)) as done:
        async for rollout in done:
            assert rollout.ended == "finished"
            number += 1
    assert number == len(works)


async def longest_first(world: World, works: Sequence[Work]) -> None:
    await pipeline(world, works, longest=True)


WAYS: dict[str, Callable[[World, Sequence[Work]], Awaitable[None]]] = {
    "synchronous": synchronous,
    "workers": workers,
    "pipeline": pipeline,
    "longest first": longest_first,
}


def measured(way: str, works: Sequence[Work], places: Places, tick: float) -> dict[str, Any]:
    """One run; times are simulated seconds but for `cpu_ms_per_turn`."""
    turns = sum(len(work.turns) for work in works)

    async def run() -> tuple[float, float, int]:
        world = World(places, tick)
        began, cpu = time.perf_counter(), time.process_time()
        await WAYS[way](world, works)
        return time.perf_counter() - began, time.process_time() - cpu, world.most

    gc.collect()
    gc.disable()
    try:
        wall, cpu, most = asyncio.run(run())
    finally:
        gc.enable()
    makespan, least = wall / tick, bound(works, places)
    model = sum(each for work in works for each, _ in work.turns)
    return {
        "way": way,
        "trajectories": len(works),
        "makespan": round(makespan, 1),
        "bound": round(least, 1),
        "over_bound": round(makespan / least, 3),
        "model_busy": round(model / places.model / makespan, 3),
        "most_alive": most,
        "cpu_ms_per_turn": round(1000 * cpu / turns, 4),
    }


@tool(parallel=True)
def slow(number: int) -> int:
    """Take a while."""
    time.sleep(CALL_SECONDS)
    return number


class Bench(TaskEnvironment):
    async def grade(self) -> list[Signal]:
        return []


def many_calls() -> float:
    """Seconds of one turn with 64 calls of a synchronous tool, within a pipeline."""
    calls = [ToolCall("slow", {"number": n}, f"c{n}") for n in range(CALLS)]

    def answer(call: Any) -> Completion | str:
        asked = call.messages[-1].role == "tool"
        return "done" if asked else Completion(text="", tool_calls=calls)

    class Stages:
        async def prepare(self, item: Task) -> Bench:
            role = Role(name="Ann", model=FunctionModel(answer), tools=[slow])
            return Bench(item, [role])

        async def run(self, item: Task, live: Bench) -> None:
            await live.begin()
            await live.act()

        async def grade(self, item: Task, live: Bench) -> None:
            await live.measure()

        async def close(self, item: Task, live: Bench) -> None:
            await live.end()

    async def run() -> float:
        tasks = [Task(f"t{n}", "go") for n in range(5)]
        took = []
        async with aclosing(rollouts(Stages(), tasks, PipelineSettings(live=1))) as done:
            async for rollout in done:
                assert rollout.ended == "finished", rollout.error
                took.append(rollout.seconds["run"])
        return min(took)

    return asyncio.run(run())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--tick", type=float, default=0.05, help="seconds of a simulated one")
    parser.add_argument("--batches", type=int, default=8, help="batches of the steady state")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    load_before = machine()["load"]
    batch, plenty = drawn(256, options.seed), Places()
    scarce = Places(running=32, prepare=16, live=64)
    rows = [("one batch", measured(way, batch, plenty, options.tick)) for way in WAYS]
    rows += [
        ("scarce", measured(way, batch, scarce, options.tick))
        for way in WAYS
        if way != "synchronous"
    ]
    many = drawn(256 * options.batches, options.seed + 1)
    rows += [("steady", measured("pipeline", many, plenty, options.tick))]
    found = {(case, row["way"]): row for case, row in rows}
    calls = many_calls()

    ours = found["one batch", "pipeline"]
    times = found["one batch", "synchronous"]["makespan"] / ours["makespan"]
    steady = found["steady", "pipeline"]
    alive = max(row["most_alive"] for (case, way), row in found.items()
                if way in ("pipeline", "longest first") and case != "scarce")  # fmt: skip
    gates = [
        Gate("one batch of 256, makespan over bound", ours["over_bound"], 1.5),
        Gate("steady state, makespan over bound", steady["over_bound"], 1.15),
        Gate("one batch, times synchronous' makespan", 1 / times, 1 / 4),
        Gate("environments alive at once", alive, plenty.live),
        Gate("the same where they are scarce", found["scarce", "pipeline"]["most_alive"], 64),
        Gate("CPU of a turn, ms", max(row["cpu_ms_per_turn"] for row in found.values()), 1.0),
        Gate(f"{CALLS} calls of {1000 * CALL_SECONDS:.0f} ms in one turn, s", calls, 0.1),
    ]
    where = {**machine(), "load_before": load_before}
    report = {
        "tick": options.tick,
        "rows": [{"case": case, **row} for case, row in rows],
        "synchronous_over_pipeline": times,
        "calls_seconds": calls,
        "gates": [gate._asdict() for gate in gates],
        "machine": where,
    }
    print(table(rows), "", *map(str, gates), where, sep="\n", file=sys.stderr)
    print(json.dumps(report, indent=2))
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


def table(rows: Sequence[tuple[str, dict[str, Any]]]) -> str:
    names = [*rows[0][1]]
    lines = [["case", *names], *[[case, *map(str, row.values())] for case, row in rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
