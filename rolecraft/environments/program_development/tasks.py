"""The tasks of `program_development`: small programs, each with hidden tests drawn from a seed."""

from __future__ import annotations

import random

from rolecraft.environments.program_development.games import GAMES
from rolecraft.environments.program_development.numbers import NUMBERS
from rolecraft.environments.program_development.program import Program
from rolecraft.environments.program_development.texts import TEXTS
from rolecraft.environments.task import Split, Task
from rolecraft.errors import UnknownName

PROGRAMS = {program.name: program for program in (*GAMES, *TEXTS, *NUMBERS)}
"""Every program, by name."""

HELD_OUT = frozenset({"tic_tac_toe", "to_do_list", "csv_totals", "roman"})
"""The programs of the `test` split; all others are for `train`."""


class ProgramTasks:
    """Draws programs and their hidden tests. A program is in one split only.

    Programs come in an order drawn from `seed` and begin again when all were there; each time
    their hidden tests are others. `hidden` is the number of hidden tests of a task.
    """

    def __init__(self, *, hidden: int = 6) -> None:
        self.hidden = hidden

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        names = sorted(name for name in PROGRAMS if (name in HELD_OUT) is (split == "test"))
        random.Random(f"programs/{split}/{seed}").shuffle(names)
        return [
            self.task(names[index % len(names)], seed=seed, number=index) for index in range(count)
        ]

    def task(self, name: str, *, seed: int = 0, number: int = 0) -> Task:
        """The task to write the program `name`. Raises `UnknownName`."""
        program = program_of(name)
        draw = random.Random(f"{name}/{seed}/{number}")
        # The example is known to the team, so it is no hidden test.
        cases: dict[str, str] = {}
        while len(cases) < self.hidden:
            given = program.draw(draw)
            if given != program.example:
                cases[given] = program.solve(given)
        data = {
            "program": name,
            "example": {"stdin": program.example, "stdout": program.solve(program.example)},
            "tests": [{"stdin": given, "stdout": said} for given, said in cases.items()],
        }
        return Task(f"{name}-{seed}-{number}", program.prompt, data, seed=number)


def program_of(name: str) -> Program:
    """The program of this name. Raises `UnknownName`."""
    if name not in PROGRAMS:
        raise UnknownName("Program", name, PROGRAMS)
    return PROGRAMS[name]
