"""The environment of `program_development`: what the team's program does is what is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from rolecraft.environments.program_development.program import ENTRY_POINT
from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.roles import Role
from rolecraft.roles.ready.source_files import files_in
from rolecraft.sandboxes import Execution, Sandbox, SandboxLimits, default_provider
from rolecraft.trajectories.events import Signal

LIMITS = SandboxLimits(seconds=5.0, cpu_seconds=5)
"""What one run of a program may use: the reference programs take a hundredth of it."""


class ProgramEnvironment(TaskEnvironment):
    """One small program to write. Signals:

    - `tests.passed`, `tests.failed`: hidden tests. Each runs `main.py` with the test's standard
      input, arguments and files in a sandbox of its own and compares what it prints, here outside,
      with what is right;
    - `test.1`, `test.2`, …: 1 if that hidden test passed, else 0;
    - `code.runs`: 1 if the program ends by itself, without an error, on the example, else 0;
    - `example.passed`: 1 if it prints what the example says;
    - `files.written`: how many files the team handed over.

    The workspace is what the messages of the team say (`files`), so there is nothing else to keep
    in step with the record. The right outputs are never inside a sandbox: no program can read
    them, nor report a result of its own.
    """

    def __init__(
        self,
        task: Task,
        roles: Iterable[Role] = (),
        *,
        sandbox: Sandbox | None = None,
        **options: Any,
    ) -> None:
        super().__init__(task, roles, **options)
        self._sandbox = sandbox
        self.about.setdefault("goal", {"artifacts": [ENTRY_POINT]})
        self.about.setdefault("outcome", {"signal": "tests.failed", "at_most": 0})

    @property
    def sandbox(self) -> Sandbox:
        """What runs the programs: `default_provider()`, and its errors, unless given."""
        return self._sandbox or default_provider()

    @property
    def files(self) -> dict[str, str]:
        """The files of the team as its messages say, by path; those of the latest round."""
        return files_in(self.trajectory)

    async def grade(self) -> list[Signal]:
        files = self.files
        example: dict[str, Any] = self.task.data["example"]
        hidden: list[dict[str, Any]] = self.task.data["tests"]
        if ENTRY_POINT in files:
            first, *others = await self._run_all(files, [example, *hidden])
            runs, shown = first.ok, _same(first, example["stdout"])
            results = [
                _same(execution, test["stdout"])
                for execution, test in zip(others, hidden, strict=True)
            ]
        else:
            runs, shown, results = False, False, [False] * len(hidden)
        passed = sum(results)
        return [
            Signal("files.written", float(len(files)), unit="files"),
            Signal("code.runs", float(runs)),
            Signal("example.passed", float(shown)),
            Signal("tests.passed", float(passed), unit="tests"),
            Signal("tests.failed", float(len(hidden) - passed), unit="tests"),
            *(Signal(f"test.{n}", float(result)) for n, result in enumerate(results, 1)),
        ]

    async def _run_all(self, files: dict[str, str], tests: list[dict[str, Any]]) -> list[Execution]:
        # Two at a time: a test that is starved of its processor time would fail for nothing.
        turn = asyncio.Semaphore(2)

        async def run(test: dict[str, Any]) -> Execution:
            async with turn:
                return await self.sandbox.run(
                    ["python3", ENTRY_POINT, *test.get("args", ())],
                    files=_beside(files, test.get("files", {})),
                    stdin=test["stdin"],
                    limits=LIMITS,
                )

        return await asyncio.gather(*map(run, tests))


def _beside(files: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """The team's files and those of a test; where a path cannot be both, the test's."""
    if not given:
        return files
    folders = {str(folder) for path in given for folder in PurePosixPath(path).parents}
    kept = {
        path: content
        for path, content in files.items()
        if path not in folders and not {str(p) for p in PurePosixPath(path).parents} & given.keys()
    }
    return {**kept, **given}


def _same(execution: Execution, right: str) -> bool:
    """Whether a run ended well and printed what is right; spaces at the end of lines are free."""
    return execution.ok and _plain(execution.stdout) == _plain(right)


def _plain(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]
