"""Programs that are kept as records, and the set of 32 tasks that experiments play.

A record is a TOML file in the folder `records`: `asked`, what a user would write; `reference`, a
program that does it; and `cases`. A case is what the program is given (`stdin`, `args`, `files`
that lie in its folder) and the `stdout` that is right. The first case is shown to the team, the
others are hidden tests. The edges in them are chosen by hand.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from rolecraft.environments.program_development.edges import EDGES
from rolecraft.environments.program_development.program import ENTRY_POINT
from rolecraft.environments.program_development.tasks import PROGRAMS, ProgramTasks
from rolecraft.environments.task import Task

Case = dict[str, Any]
"""`stdin` and `stdout`; `args` and `files` where the case has any."""


@dataclass(frozen=True, slots=True)
class Record:
    """One program as its record has it."""

    name: str
    kind: str
    asked: str
    reference: str
    cases: tuple[Case, ...]

    @property
    def prompt(self) -> str:
        """What the team is told: the wish, how the program is run, and the first case."""
        example = self.cases[0]
        with_args = any("args" in case for case in self.cases)
        reads = "" if with_args else ", reads standard input to its end"
        line = " ".join(["python3", ENTRY_POINT, *example.get("args", ())])
        shown = [f"Example: `{line}`"] if with_args else []
        shown += [f"with the file `{name}`:\n{_block(text)}" for name, text in _files(example)]
        if not with_args:
            shown.append(f"Example input:\n{_block(example['stdin'])}")
        return (
            f"{self.asked.strip()}\n\n"
            f"Write it in Python 3 with the standard library alone. It is run as "
            f"`python3 {ENTRY_POINT}{' ARGUMENTS' if with_args else ''}`{reads} and writes "
            f"standard output.\n\n"
            + "\n".join([*shown, f"Its output:\n{_block(example['stdout'])}"])
        )

    def task(self) -> Task:
        """The task to write this program."""
        example, *hidden = self.cases
        data = {"program": self.name, "example": example, "tests": hidden}
        return Task(self.name, self.prompt, data)


@cache
def records() -> dict[str, Record]:
    """Every record, by name, in the order of the alphabet."""
    folder = files("rolecraft.environments.program_development") / "records"
    found = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            table = tomllib.loads(file.read_text("utf-8"))
            table["cases"] = tuple(table["cases"])
            found[table["name"]] = Record(**table)
    return found


def program_dev(*, seed: int = 0) -> list[Task]:
    """32 programs to write: those of `ProgramTasks`, and the records.

    Of the first, eight tests are drawn from `seed` and the rest are `EDGES`.
    They are like the 32 of ChatDev's ProgramDev set in kind (games, puzzles, tools for text and
    files, calculators) and in number, and ours.
    """
    return [
        *(_with_edges(name, seed) for name in PROGRAMS),
        *(record.task() for record in records().values()),
    ]


def _with_edges(name: str, seed: int) -> Task:
    task = ProgramTasks(hidden=8).task(name, seed=seed)
    there = {test["stdin"] for test in (task.data["example"], *task.data["tests"])}
    solve = PROGRAMS[name].solve
    edges = [
        {"stdin": given, "stdout": solve(given)} for given in EDGES[name] if given not in there
    ]
    return replace(task, id=name, data={**task.data, "tests": [*task.data["tests"], *edges]})


def _files(case: Case) -> list[tuple[str, str]]:
    return list(case.get("files", {}).items())


def _block(text: str) -> str:
    return f"```\n{text.rstrip()}\n```"
