"""What batch generation itself costs: per item, in memory, and to go on with a finished run.

    python benchmarks/batch.py             # a table to stderr, JSON to stdout
    python benchmarks/batch.py --gate      # exit status 1 if a limit is crossed
    python benchmarks/batch.py --rows 10000

The stub is an item that takes 20 ms and answers with one conversation; everything else is real:
the rows in a JSONL file, the pipeline, samples and ledger on disk, the training output. Each figure
comes from a process of its own.

A second figure is of a real team of one role, whose stand-in model takes 20 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gate import Gate
from machine import machine

SECONDS = 0.02
CONCURRENCY = 500
MIB = 2**20


# --- what is measured, in a process of its own ----------------------------------------------------


def stub() -> Any:
    """Stages that wait, and then give a sample of one conversation."""
    from rolecraft.rollouts.batch.config import BatchConfig
    from rolecraft.rollouts.batch.conversations import Conversation, Turn
    from rolecraft.rollouts.batch.items import Item
    from rolecraft.rollouts.batch.samples import Sample
    from rolecraft.rollouts.batch.stages import BatchStages

    class Stub(BatchStages):
        tools = ("search", "read")

        async def prepare(self, item: Item) -> Any:
            return None

        async def run(self, item: Item, live: Any) -> None:
            await asyncio.sleep(SECONDS)

        async def grade(self, item: Item, live: Any) -> Sample:
            turns = [
                Turn("user", item.prompt),
                Turn("assistant", "an answer", "because", sampled=True, thought=True),
            ]
            entry = item.entry("ok", ended="finished")
            entry = entry.but(turns=1, reasoned=1, calls=1, prompt_tokens=9)
            return Sample(
                entry=entry,
                prompt=item.prompt,
                conversations=[Conversation("R/1", "R", "stub", turns)],
            )

        async def close(self, item: Item, live: Any) -> None:
            return None

        def recorded(self, item: object, live: object) -> None:
            return None

        async def _begin(self, item: Item) -> Any: ...
        async def _play(self, item: Item, live: Any) -> Any: ...

    return Stub(BatchConfig())


def team() -> Any:
    """A team of one role, whose model takes as long."""
    from rolecraft import FunctionModel, Role, Team
    from rolecraft.models import Completion

    async def answer(call: Any) -> Completion:
        await asyncio.sleep(SECONDS)
        return Completion(text="an answer", reasoning="because")

    class Speaker(Role):
        pass

    from rolecraft import Action

    class Speak(Action):
        async def run(self, history: Any) -> str:
            return await self.ask(history[-1].content)

    return Team([Speaker(actions=[Speak])], model=FunctionModel(answer, keep_calls=False))


def measure(folder: Path, rows: int, kind: str) -> dict[str, Any]:
    """One call of `run_batch`: seconds, the peak of memory, and what each tenth took."""
    from rolecraft.rollouts.batch.config import BatchConfig
    from rolecraft.rollouts.batch.runner import run_batch

    dataset = folder / f"{rows}.jsonl"
    if not dataset.exists():
        with dataset.open("w") as file:
            for number in range(rows):
                file.write(json.dumps({"prompt": f"question {number} {'x' * 200}"}) + "\n")
    tenths: list[float] = []
    over = 0

    def hear(event: Any) -> None:
        nonlocal over
        over += event.what == "item"
        if event.what == "item" and over % (rows // 10) == 0:
            tenths.append(time.process_time())

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    report = asyncio.run(
        run_batch(
            dataset,
            stub() if kind == "stub" else team(),
            BatchConfig(concurrency=CONCURRENCY),
            folder=folder / f"out-{kind}-{rows}",
            on_event=hear,
        )
    )
    seconds = time.perf_counter() - began
    assert report.complete
    assert report.output.samples == rows
    gaps = [b - a for a, b in zip([cpu, *tenths], tenths, strict=False)]
    return {
        "ran": report.ran,
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu,
        "overhead_seconds": seconds - report.ran * SECONDS / CONCURRENCY,
        "grown_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "cpu_seconds_of_tenths": gaps,
    }


def apart(folder: Path, rows: int, kind: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--measure", str(folder), "--rows", str(rows)]
    done = subprocess.run([*command, "--kind", kind], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# --- the whole ------------------------------------------------------------------------------------


def results(folder: Path, rows: int) -> Iterator[tuple[str, dict[str, Any]]]:
    few = rows // 10
    yield f"{few:,} rows", apart(folder, few, "stub")
    yield f"{rows:,} rows", apart(folder, rows, "stub")
    yield f"{rows:,} rows, again", apart(folder, rows, "stub")
    yield f"{few:,} rows of a team", apart(folder, few, "team")


def check(found: list[dict[str, Any]]) -> list[Gate]:
    few, many, again, _ = found
    first, last = many["cpu_seconds_of_tenths"][1], many["cpu_seconds_of_tenths"][-1]
    return [
        Gate("overhead of a tenth of the rows, seconds", few["overhead_seconds"], 2.0),
        Gate(
            "memory that ten times the rows take more, MiB",
            many["grown_mib"] - few["grown_mib"],
            100,
        ),
        Gate("CPU time of the last tenth of the rows over the second", last / first, 1.3),
        Gate("going on with the finished run, seconds", again["seconds"], 2.0),
        Gate("memory of going on, MiB", again["grown_mib"], 200),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", default="stub", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        gc.collect()
        print(json.dumps(measure(options.measure, options.rows, options.kind)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = dict(results(Path(folder), options.rows))
    for name, each in found.items():
        print(
            f"{name:>28}: {each['seconds']:7.2f} s, {each['cpu_seconds']:7.2f} s of CPU, overhead "
            f"{each['overhead_seconds']:6.2f} s, {each['grown_mib']:6.0f} MiB more",
            file=sys.stderr,
        )
    gates = check(list(found.values()))
    print(*gates, sep="\n", file=sys.stderr)
    print(
        json.dumps(
            {"machine": machine(), "results": found, "gates": [gate._asdict() for gate in gates]}
        )
    )
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


if __name__ == "__main__":
    sys.exit(main())
