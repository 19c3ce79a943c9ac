"""20 tasks: bugs planted by hand in three small packages, and told as users would tell them.

Each task is two files of the folder `tasks`: `ID.diff` plants the bug in the published source, so
its reverse is the reference; `ID.toml` has the issue (`problem`), the kind of the bug and the tests
that fail with it. The tests to keep are all others of `suites/PACKAGE.txt`: what passes in the
source as it was published. `python -m rolecraft.environments.software_engineering.examples` checks
all of that.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from rolecraft.environments.software_engineering.examples.fetch import (
    DATA,
    Fetched,
    fetch,
    packages,
)
from rolecraft.environments.software_engineering.instances import Instance, Polarity, SoftwareTasks
from rolecraft.environments.task import Split, Task
from rolecraft.errors import UnknownName

HELD_OUT = 0.25
"""The share of the tasks that is kept for `test`, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One planted bug, without the code that it is planted in."""

    id: str
    package: str
    kind: str
    """What was done to the code, in a few words."""
    problem: str
    patch: str
    """Plants the bug."""
    fail_to_pass: tuple[str, ...]
    polarity: ClassVar[Polarity] = "bug"

    def instance(self, fetched: Fetched) -> Instance:
        """The instance of it, with what was fetched."""
        pin = packages()[self.package]
        return Instance(
            id=self.id,
            problem=self.problem,
            fail_to_pass=self.fail_to_pass,
            pass_to_pass=tuple(
                test for test in suite(self.package) if test not in self.fail_to_pass
            ),
            patch=self.patch,
            polarity=self.polarity,
            repo=self.package,
            version=pin.version,
            source=str(fetched.source(pin)),
            environment=str(fetched.environment),
            dataset="rolecraft-examples",
            meta={"kind": self.kind},
        )


class SweExamples:
    """A `TaskSource` of the examples. The first task that is drawn fetches what is missing in
    `folder`, see `fetch`; from then on no network is asked.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = folder
        self._tasks: SoftwareTasks | None = None

    @property
    def instances(self) -> dict[str, Instance]:
        """All of them, by id. Raises what `fetch` raises."""
        return self._fetched.instances

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        """`count` tasks of a split. Raises what `fetch` raises."""
        return self._fetched.sample(count, seed=seed, split=split)

    def task(self, id: str) -> Task:  # noqa: A002 - what it is called everywhere else
        """The task with this id. Raises `UnknownName`, and what `fetch` raises."""
        if id not in examples():
            raise UnknownName("Example", id, examples())
        return self.instances[id].task()

    @property
    def _fetched(self) -> SoftwareTasks:
        if self._tasks is None:
            fetched = fetch(self.folder)
            self._tasks = SoftwareTasks(
                [example.instance(fetched) for example in examples().values()], held_out=HELD_OUT
            )
        return self._tasks


def swe_examples(folder: str | Path | None = None) -> SweExamples:
    """The 20 tasks. `folder` keeps what is fetched for them, see `default_folder`."""
    return SweExamples(folder)


@cache
def examples() -> dict[str, Example]:
    """Every example, by id, in the order of the alphabet."""
    found: dict[str, Example] = {}
    for file in sorted((DATA / "tasks").iterdir(), key=lambda file: file.name):
        name, _, kind = file.name.rpartition(".")
        if kind == "toml":
            row = tomllib.loads(file.read_text("utf-8"))
            row["fail_to_pass"] = tuple(row["fail_to_pass"])
            patch = (DATA / "tasks" / f"{name}.diff").read_text("utf-8")
            found[name] = Example(id=name, patch=patch, **row)
    return found


@cache
def suite(package: str) -> tuple[str, ...]:
    """The tests that pass in a package as it was published."""
    return tuple((DATA / "suites" / f"{package}.txt").read_text("utf-8").split("\n")[:-1])
