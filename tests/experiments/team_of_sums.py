"""Tasks and a model for experiments whose numbers are known by hand.

Six sums. The baseline knows the first two. The improved prompt knows all, but is wrong on the last
one every second time. The topology knows all.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rolecraft import FunctionModel
from rolecraft.environments import Task
from rolecraft.models import ModelCall
from rolecraft.sandboxes import Execution, FunctionSandbox

TASKS = [Task(f"sum/{n}", f"What is {n} and {n}?", {"answer": str(2 * n)}) for n in range(6)]


def solver(said: Callable[[str], None] = lambda who: None) -> FunctionModel:
    """A model that plays every role; `said` hears who was asked what."""
    asked: Counter[str] = Counter()

    def answer(call: ModelCall) -> str:
        problem = call.messages[1].content
        found = re.search(r"What is (\d+) and", problem)
        assert found is not None
        number = int(found[1])
        said(f"{call.role} {number}")
        right = rf"\boxed{{{2 * number}}}"
        match call.role:
            case "Assistant" if "Verification" in call.messages[0].content:
                asked[problem] += 1
                return r"\boxed{-1}" if number == 5 and asked[problem] % 2 == 0 else right
            case "Assistant":
                return right if number < 2 else r"\boxed{-1}"
            case "Solver":
                return right
            case "Coder":
                return "```python\nprint('a number')\n```"
            case _:
                accepted = {"reason": "Both say so.", "accepted": True, "answer": str(2 * number)}
                return json.dumps(accepted)

    return FunctionModel(answer, name="knows some")


def prints_a_number() -> FunctionSandbox:
    return FunctionSandbox(lambda call: Execution(exit_code=0, stdout="a number\n"))


def journals(folder: Path) -> dict[str, bytes]:
    """Every journal below a folder, by its path."""
    found = sorted(path for path in folder.rglob("r*.jsonl") if ".timings" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def finished(folder: Path) -> dict[str, bytes]:
    """The journals whose last event is the end of the run."""
    over = {}
    for name, content in journals(folder).items():
        lines = content.splitlines()
        if lines and content.endswith(b"\n") and json.loads(lines[-1]).get("kind") == "stop":
            over[name] = content
    return over
