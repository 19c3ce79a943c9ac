"""An experiment that kills its process at the n-th model call: `FOLDER LOG N` (0: never).

Each call is a line in the log, written before it is answered.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from team_of_sums import TASKS, prints_a_number, solver

from rolecraft.experiments import experiment, maths_chat

folder, log, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
calls = 0


def said(line: str) -> None:
    global calls
    calls += 1
    with log.open("a") as file:
        file.write(f"{line}\n")
    if calls == last:
        os.kill(os.getpid(), signal.SIGKILL)


results = asyncio.run(
    experiment(
        variants=maths_chat(sandbox=prints_a_number()),
        tasks=TASKS,
        repetitions=2,
        model=solver(said),
        concurrency=3,
        folder=folder,
    )
)
print(results.complete)
