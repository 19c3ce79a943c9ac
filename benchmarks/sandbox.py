"""What a sandbox costs, next to SWE-ReX's local runtime, which has no walls, in the same run.

    python benchmarks/sandbox.py             # a table to stderr, JSON to stdout
    python benchmarks/sandbox.py --gate      # exit status 1 if a limit is crossed

Milliseconds of wall time, the median and the 95th of a hundred. *Session*: from nothing to the
first answer of a shell. *Command*: one more line in the same shell. *Fork*: another sandbox that
begins with a prepared work folder of 200 MB, and its first command. *Alive*: so many sandboxes with
a shell each, all of which answer. SWE-ReX is left out where it is not installed (`make
bench-sandbox` installs it); it has no fork.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from statistics import median, quantiles
from typing import Any

from gate import Gate
from machine import machine

from rolecraft.sandboxes import (
    Bubblewrap,
    LiveSandbox,
    LocalProcess,
    SandboxLimits,
    SandboxProvider,
    SandboxSpec,
)

MIB = 2**20
PREPARED_MIB = 200
FILL = "head -c 1048576 /dev/urandom > $n.bin"
ROOM = SandboxLimits(disk_bytes=512 * MIB, file_bytes=64 * MIB)
LIMITS = {
    "session_ms": 15.0,
    "command_ms": 1.0,
    "fork_ms": 20.0,
}
Figures = dict[str, dict[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--alive", type=int, default=500, help="sandboxes at once (default: 500)")
    parser.add_argument("--repeat", type=int, default=100, help="sessions (default: 100)")
    options = parser.parse_args()
    results: dict[str, Figures] = {
        "rolecraft, bubblewrap": asyncio.run(ours(Bubblewrap(), options.repeat)),
        "rolecraft, no walls": asyncio.run(ours(LocalProcess(), options.repeat)),
    }
    try:
        results[f"SWE-ReX {version('swe-rex')}, no walls"] = asyncio.run(swerex(options.repeat))
    except PackageNotFoundError:
        say("SWE-ReX is not installed: left out")
    alive = asyncio.run(many(Bubblewrap(), options.alive))
    first = results["rolecraft, bubblewrap"]
    gates = [Gate(name, first[name]["median"], limit) for name, limit in LIMITS.items()]
    gates.append(Gate("sandboxes that did not answer", options.alive - alive["answered"], 0))
    say(table(results), "", f"alive at once: {alive}", "", *map(str, gates))
    print(
        json.dumps(
            {
                "machine": machine(),
                "results": results,
                "alive": alive,
                "gates": [gate._asdict() for gate in gates],
            }
        )
    )
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


async def ours(provider: SandboxProvider, repeat: int) -> Figures:
    """A provider of ours."""
    async with await provider.create():
        pass  # what is made once for a provider

    made: list[LiveSandbox] = []

    async def session() -> None:
        made.append(await provider.create())
        shell = await made[-1].shell()
        assert (await shell.run("echo ready")).stdout == "ready\n"

    async def close() -> None:
        await made.pop().close()

    figures = {"session_ms": await timed(session, repeat, after=close)}
    async with await provider.create() as sandbox:
        shell = await sandbox.shell()

        async def command() -> None:
            assert (await shell.run("echo again")).stdout == "again\n"

        async def program() -> None:
            assert (await sandbox.run(["true"])).ok

        figures["command_ms"] = await timed(command, 10 * repeat)
        figures["program_ms"] = await timed(program, repeat)
    async with await provider.create(SandboxSpec(limits=ROOM)) as prepared:
        done = await prepared.run(["sh", "-c", f"for n in $(seq {PREPARED_MIB}); do {FILL}; done"])
        assert done.ok, done

        async def fork() -> None:
            made.append(await prepared.fork())
            assert (await made[-1].run(["test", "-s", f"{PREPARED_MIB}.bin"])).ok

        figures["fork_ms"] = await timed(fork, max(3, repeat // 5), after=close)
    return figures


async def swerex(repeat: int) -> Figures:
    """SWE-ReX's local runtime, by its own API."""
    from swerex.runtime.abstract import (
        BashAction,
        CloseBashSessionRequest,
        Command,
        CreateBashSessionRequest,
    )
    from swerex.runtime.local import LocalRuntime

    runtime = LocalRuntime()
    number = 0

    async def session() -> None:
        nonlocal number
        number += 1
        name = f"session-{number}"
        await runtime.create_session(CreateBashSessionRequest(session=name))
        done = await runtime.run_in_session(BashAction(command="echo ready", session=name))
        assert "ready" in done.output

    async def close() -> None:
        await runtime.close_session(CloseBashSessionRequest(session=f"session-{number}"))

    async def command() -> None:
        done = await runtime.run_in_session(BashAction(command="echo again", session="kept"))
        assert "again" in done.output

    async def program() -> None:
        assert (await runtime.execute(Command(command=["true"]))).exit_code == 0

    few = max(3, repeat // 10)
    figures = {"session_ms": await timed(session, few, after=close)}
    await runtime.create_session(CreateBashSessionRequest(session="kept"))
    figures["command_ms"] = await timed(command, few)
    figures["program_ms"] = await timed(program, repeat)
    await runtime.close()
    return figures


async def many(provider: SandboxProvider, count: int) -> dict[str, float]:
    """So many at once, each with a shell that answers at the end."""
    start = time.perf_counter()
    turn = asyncio.Semaphore(8)

    async def one() -> Any:
        async with turn:
            sandbox = await provider.create()
            return sandbox, await sandbox.shell()

    made = await asyncio.gather(*(one() for _ in range(count)))
    up = time.perf_counter() - start
    done = await asyncio.gather(*(shell.run("echo $$") for _, shell in made))
    asked = time.perf_counter() - start - up
    await asyncio.gather(*(sandbox.close() for sandbox, _ in made))
    return {
        "answered": sum(execution.ok for execution in done),
        "up_s": round(up, 2),
        "one_line_in_each_s": round(asked, 3),
        "closed_s": round(time.perf_counter() - start - up - asked, 2),
    }


async def timed(
    work: Callable[[], Awaitable[None]],
    repeat: int,
    *,
    after: Callable[[], Awaitable[None]] | None = None,
) -> dict[str, float]:
    """Median and 95th of a hundred, in milliseconds. What `after` tidies up is not timed."""
    took = []
    for _ in range(repeat):
        start = time.perf_counter()
        await work()
        took.append((time.perf_counter() - start) * 1e3)
        if after is not None:
            await after()
    return {"median": median(took), "p95": quantiles(took, n=20)[-1]}


def table(results: dict[str, Figures]) -> str:
    """Markdown: a row a provider, `median (p95)` in milliseconds."""
    names = ["session_ms", "command_ms", "program_ms", "fork_ms"]
    rows = [["sandbox", *(name.replace("_", " ") for name in names)], ["---"] * 5]
    for provider, figures in results.items():
        cells = [figures.get(name) for name in names]
        rows.append(
            [provider, *(f"{c['median']:.3g} ({c['p95']:.3g})" if c else "-" for c in cells)]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def say(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
