"""Processes that kill themselves at the n-th model call, and what stays the same through kills.

As a script: `WHAT FOLDER LOG N`, where N is 0 to be spared. Each call is a line in the log, written
before it is answered.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from sums import TEAM, knows
from team_of_sums import TASKS, finished, prints_a_number, solver

from rolecraft.experiments import Setting, evaluate, experiment, maths_chat

What = Literal["evaluation", "experiment"]
AT_ONCE = 3


def start(what: What, folder: Path, log: Path, last: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, __file__, what, folder, log, str(last)],
        text=True,
        capture_output=True,
        timeout=300,
    )


def killed_and_finished(what: What, folder: Path, log: Path, kills: tuple[int, ...]) -> int:
    """Kill one process after the other at these calls, and let a last one finish.

    No run that is over is touched again. Returns how many there are in the end.
    """
    before: dict[str, bytes] = {}
    for last in kills:
        killed = start(what, folder, log, last)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        now = finished(folder)
        assert before.items() <= now.items()
        before = now
    assert before
    done = start(what, folder, log, 0)
    assert done.stdout == "True\n", done.stderr
    now = finished(folder)
    assert before.items() <= now.items()
    return len(now)


def check_calls(log: Path, calls: int, kills: int) -> None:
    """Assert that of each run under way at a kill at most one call was asked again."""
    assert calls + kills <= len(log.read_text().splitlines()) <= calls + kills * AT_ONCE


async def _evaluation(folder: Path, said: Callable[[str], None]) -> bool:
    found = await evaluate(
        TEAM,
        models=knows(said),
        tasks=5,
        setting=Setting(attempts=2),
        baselines=["single", "best-of-n", "vote"],
        concurrency=AT_ONCE,
        folder=folder,
    )
    return found.complete


async def _experiment(folder: Path, said: Callable[[str], None]) -> bool:
    found = await experiment(
        variants=maths_chat(sandbox=prints_a_number()),
        tasks=TASKS,
        repetitions=2,
        model=solver(said),
        concurrency=AT_ONCE,
        folder=folder,
    )
    return found.complete


def _main(what: str, folder: str, log: str, last: str) -> None:
    calls = 0

    def said(line: str) -> None:
        nonlocal calls
        calls += 1
        with Path(log).open("a") as file:
            file.write(f"{line}\n")
        if calls == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    play = {"evaluation": _evaluation, "experiment": _experiment}[what]
    print(asyncio.run(play(Path(folder), said)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
