"""Scenarios for evaluations whose figures are known by hand: the team knows all sums.

The agent alone knows those that 3 does not divide; with chance it also knows every second time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rolecraft import FunctionModel
from rolecraft.environments import Task
from rolecraft.environments.task import Split
from rolecraft.models import Completion, ModelCall
from rolecraft.sandboxes import Execution, FunctionSandbox
from rolecraft.scenarios.maths_chat import chat, team
from rolecraft.trajectories.events import Usage

BOX = FunctionSandbox(lambda call: Execution(exit_code=0, stdout="a number\n"))


class Sums:
    """The sums from 0 on are for tests, those from 100 on to train on."""

    def __init__(self, most: int = 1000) -> None:
        self.most = most

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        first = 0 if split == "test" else 100
        return [sum_of(first + n, split) for n in range(min(count, self.most))]


def sum_of(n: int, split: str = "test") -> Task:
    return Task(f"sum-{split}-{n}", f"What is {n} and {n}?", {"answer": str(2 * n)})


SOLO = replace(chat(sandbox=BOX), name="solo", tasks=Sums())
TEAM = replace(team(sandbox=BOX), name="sums", tasks=Sums(), alone=SOLO)


def knows(
    said: Callable[[str], None] = lambda who: None,
    *,
    name: str = "knows",
    usd: float | None = 0.0,
    tokens: int = 10,
    solo: Callable[[int], bool] = lambda n: n % 3 != 0,
) -> FunctionModel:
    """A model of every role; a call costs `usd` and `tokens`. `solo` says what it knows alone."""

    def answer(call: ModelCall) -> Completion:
        number = number_of(call)
        said(f"{call.role} {number}")
        right = rf"\boxed{{{2 * number}}}"
        match call.role:
            case "Assistant":
                text = right if solo(number) else r"\boxed{-1}"
            case "Coder":
                text = "```python\nprint('a number')\n```"
            case "Verifier":
                text = json.dumps({"reason": "so", "accepted": True, "answer": str(2 * number)})
            case _:
                text = right
        return Completion(text=text, usage=Usage(tokens, 0, usd, 1))

    return FunctionModel(answer, name=name)


def number_of(call: Any) -> int:
    found = re.search(r"What is (\d+) and", call.messages[1].content)
    assert found is not None
    return int(found[1])
