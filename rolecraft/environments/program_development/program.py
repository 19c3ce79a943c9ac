"""What a small program must do: words for the team, and a reference to check against.

Every program is `main.py`, reads standard input to its end and writes standard output. So a
hidden test is an input and the output that belongs to it, and the outputs need never be where the
program runs: nothing that the program does can make a wrong one look right.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass

ENTRY_POINT = "main.py"
"""The file that is run."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program that a team can be asked for.

    `solve` is the reference: from standard input to standard output, with everything it needs
    inside, so that its source stands alone. `draw` makes an input of a hidden test; `example` is
    the input that the team is shown.
    """

    name: str
    asked: str
    """What the program must do, precise enough that two people would write the same output."""
    solve: Callable[[str], str]
    draw: Callable[[random.Random], str]
    example: str

    @property
    def prompt(self) -> str:
        """What the team is told: the wish, how the program is run, and one example."""
        return (
            f"{self.asked.strip()}\n\n"
            f"Write it in Python 3 with the standard library alone. It is run as "
            f"`python3 {ENTRY_POINT}`, reads standard input to its end and writes standard "
            f"output.\n\n"
            f"Example input:\n```\n{self.example.strip()}\n```\n"
            f"Its output:\n```\n{self.solve(self.example).rstrip()}\n```"
        )

    @property
    def files(self) -> dict[str, str]:
        """The reference as a program of two files: what a test double of a good team hands over."""
        main = f"""\
import sys

from rules import {self.solve.__name__}

if __name__ == "__main__":
    sys.stdout.write({self.solve.__name__}(sys.stdin.read()))
"""
        return {"rules.py": inspect.getsource(self.solve), ENTRY_POINT: main}
