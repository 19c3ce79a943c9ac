"""HumanEval (Chen et al. 2021, arXiv 2107.03374): 164 functions to write, each with its tests.

Published as `openai_humaneval` on the hub (split `test`) and as `HumanEval.jsonl.gz`: rows with
the fields `task_id`, `prompt`, `entry_point`, `canonical_solution` and `test`. The tests are
Python that calls the function, so they run where the team's program runs: in the sandbox, never in
this process. What they need beside the function, such as helpers that the prompt defines, comes
from the prompt.

Invariant: a program passes only if all its tests ran to their end. A program that ends the process
itself has not printed the token that only this process and the harness know.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from rolecraft.environments.program_development.environment import LIMITS, ProgramEnvironment
from rolecraft.environments.program_development.program import ENTRY_POINT
from rolecraft.environments.task import Task
from rolecraft.experiments.rows import field, read
from rolecraft.sandboxes import Sandbox
from rolecraft.trajectories.events import Signal

HUB = "openai/openai_humaneval"

HARNESS = """\
import json, sys

given = json.loads(sys.stdin.read())
sys.path.insert(0, "")
import main

names = {}
exec(given["prompt"], names)
names.update({name: value for name, value in vars(main).items() if not name.startswith("__")})
function = getattr(main, given["entry_point"])
exec(given["test"], names)
names["check"](function)
sys.stdout.write("\\n" + given["token"] + "\\n")
"""
"""Reads all it must know before anything of the program runs; nothing of it is a file."""


def humaneval(source: str | Path = HUB, *, split: str = "test") -> list[Task]:
    """The problems in a file, or of a data set on the hub, as tasks for `HumanEvalEnvironment`.

    `task.data` has the fields of the row but for the solution. Raises what `read` raises.
    """
    tasks = []
    for number, row in enumerate(read(source, split=split), 1):
        name = field(row, "task_id", source, number)
        data = {key: field(row, key, source, number) for key in ("prompt", "entry_point", "test")}
        tasks.append(Task(name, _asked(data["prompt"], data["entry_point"]), data, seed=number))
    return tasks


def _asked(prompt: str, entry_point: str) -> str:
    return (
        f"Complete this Python function:\n\n```python\n{prompt.strip()}\n```\n\n"
        f"Write it in Python 3 with the standard library alone. The file `{ENTRY_POINT}` holds "
        f"the whole function `{entry_point}` and what it needs; it is imported, so importing it "
        f"prints nothing and reads nothing."
    )


class HumanEvalEnvironment(ProgramEnvironment):
    """One function to write. Signals:

    - `tests.passed`, `tests.failed`: 1 and 0 if the published tests pass, else 0 and 1;
    - `files.written`: how many files the team handed over.

    The team's files are what its messages say, as in any `ProgramEnvironment`.
    """

    async def grade(self) -> list[Signal]:
        files = self.files
        passed = ENTRY_POINT in files and await passes(files, self.task.data, self.sandbox)
        return [
            Signal("files.written", float(len(files)), unit="files"),
            Signal("tests.passed", float(passed), unit="tests"),
            Signal("tests.failed", float(not passed), unit="tests"),
        ]


async def passes(files: dict[str, str], row: dict[str, Any], sandbox: Sandbox) -> bool:
    """Whether a program passes the tests of a row of HumanEval, in a sandbox."""
    token = secrets.token_hex(16)
    given = {key: row[key] for key in ("prompt", "entry_point", "test")} | {"token": token}
    execution = await sandbox.run(
        ["python3", "-c", HARNESS], files=files, stdin=json.dumps(given), limits=LIMITS
    )
    return execution.ok and execution.stdout.rstrip("\n").rpartition("\n")[2] == token
