"""What grading adds to the plain run of the same tests: the same sandbox and pytest, no guard.

    python benchmarks/grading.py             # a table to stderr, JSON to stdout
    python benchmarks/grading.py --gate      # exit status 1 if a limit is crossed

One task of each package of the example set, which is fetched by pip, with its reference patch. The
three ways take turns in one run, and each is the median of several: *plain* puts the patch on the
base and runs pytest there, *first* grades where nothing is known of the tests yet, *later* where
they have been graded before. Seconds of wall time, and of processors in this process, its keeper
and the sandbox, which are what can be compared on a machine that has other work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from gate import Gate
from machine import machine

from rolecraft.environments.software_engineering import Instance
from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.environments.software_engineering.examples import examples, fetch
from rolecraft.environments.software_engineering.grading import LIMITS, Grader
from rolecraft.environments.software_engineering.patches import put
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.taken import test_file as file_of
from rolecraft.sandboxes import Bubblewrap, SandboxSpec

MOST_ADDED = 0.10
"""What grading may add to the plain run, in processor time."""
Sample = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--repeat", type=int, default=7, help="turns a task (default: 7)")
    options = parser.parse_args()
    results = asyncio.run(measured(options.repeat))
    gates = [
        Gate(f"{way}: processor time added", median(share(task, way) for task in results), limit)
        for way, limit in (("first", MOST_ADDED), ("later", MOST_ADDED))
    ]
    print(table(results), "", *gates, sep="\n", file=sys.stderr)
    gated = [gate._asdict() for gate in gates]
    print(json.dumps({"machine": machine(), "results": results, "gates": gated}))
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


async def measured(repeat: int) -> list[dict[str, object]]:
    """One task a package."""
    fetched = fetch()
    chosen = {each.package: each for each in examples().values()}
    return [await of_task(each.instance(fetched), repeat) for each in chosen.values()]


async def of_task(instance: Instance, repeat: int) -> dict[str, object]:
    """The medians of one task."""
    provider, bases = Bubblewrap(), Bases()
    base, runtime = await bases.of(instance), Runtime.of(instance)
    reference = await bases.reference(instance)
    tests = (*instance.fail_to_pass, *instance.pass_to_pass)
    files = sorted({file_of(test) for test in tests})

    async def plain() -> None:
        spec = SandboxSpec(base=base.graded, readable=runtime.readable, limits=LIMITS)
        command = [runtime.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
        env = {"PYTHONPATH": ":".join(runtime.site), "PYTHONDONTWRITEBYTECODE": "1"}
        async with await provider.create(spec) as sandbox:
            await put(sandbox, reference, python=runtime.python)
            done = await sandbox.run(command, env=env)
        assert done.ok, done

    async def graded(known: Bases) -> None:
        assert (await Grader(provider, bases=known).grade(instance, reference)).resolved

    async def first() -> None:
        await graded(fresh)

    async def later() -> None:
        await graded(bases)

    ways: dict[str, Callable[[], Awaitable[None]]]
    ways = {"plain": plain, "first": first, "later": later}
    for _ in range(3):  # with what the first two find out, the others are as they stay
        await graded(bases)
    samples: dict[str, list[Sample]] = {way: [] for way in ways}
    for _ in range(repeat):
        fresh = Bases()
        await fresh.of(instance)
        for way, run in ways.items():
            with timed(samples[way]):
                await run()
        fresh.close()
    bases.close()
    medians = {
        way: {unit: median(each[unit] for each in found) for unit in ("wall_s", "cpu_s")}
        for way, found in samples.items()
    }
    return {"task": instance.id, "tests": len(tests), **medians}


@contextmanager
def timed(samples: list[Sample]) -> Iterator[None]:
    start, before = time.perf_counter(), processor_seconds()
    yield
    wall, cpu = time.perf_counter() - start, processor_seconds() - before
    samples.append({"wall_s": wall, "cpu_s": cpu})


def processor_seconds(pid: int | str = "self") -> float:
    """Of a process with all its descendants, those that have ended included."""
    ticks = 0.0
    try:
        # From the parenthesis on: field 3, so utime to cstime, 14 to 17, are 11 to 14.
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        ticks = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        for task in Path(f"/proc/{pid}/task").iterdir():
            ticks += sum(map(processor_seconds, (task / "children").read_text().split()))
    except OSError:  # it has ended meanwhile
        pass
    return ticks


def share(task: dict[str, object], way: str) -> float:
    """What `way` adds to the plain run, as a share of that."""
    cpu = {name: task[name]["cpu_s"] for name in ("plain", way)}  # type: ignore[index]
    return float(cpu[way] / cpu["plain"] - 1)


def table(results: list[dict[str, object]]) -> str:
    """Markdown: a row a task, `processor (wall)` in seconds, and what each way adds."""
    rows = [["task", "tests", "plain", "first", "later", "first adds", "later adds"], ["---"] * 7]
    for task in results:
        cells = [task[way] for way in ("plain", "first", "later")]
        rows.append(
            [
                *(str(task["task"]), str(task["tests"])),
                *(f"{c['cpu_s']:.2f} ({c['wall_s']:.2f})" for c in cells),  # type: ignore[index]
                *(f"{share(task, way):+.0%}" for way in ("first", "later")),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
