"""Tests of any runner that writes a report, each run in a sandbox of its own.

It is slower than `warm.py`, for the command builds what it needs each time, and knows no single
tests. So both runs of a candidate are of all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import SandboxProvider, SandboxSpec
from rolecraft.sandboxes.test_runners import CTestXml, JUnit, TestRun
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.validation.places import Place
from rolecraft.synthesis.validation.ran import Ran, WorkerLost
from rolecraft.synthesis.validation.settings import Settings


class FreshReport:
    """A `Worker` for JUnit XML and for CTest's own report."""

    def __init__(
        self, plan: Plan, settings: Settings, provider: SandboxProvider, place: Place
    ) -> None:
        project, self._provider = plan.project, provider
        kind = JUnit if project.runner == "junit" else CTestXml
        self._runner = kind(project.test_command, project.report)
        seconds = 10 * plan.suite.wall_seconds + settings.time_limit
        self._spec = SandboxSpec(
            base=place.base,
            readable=place.runtime.readable,
            limits=settings.limits(seconds),
        )

    async def run(
        self,
        texts: Mapping[str, str],
        tests: Sequence[str] | None = None,
        *,
        again: bool = False,
        most: int,
    ) -> Ran:
        """See `Worker.run`; `tests` are among all that are run."""
        # Without a sandbox nothing comes to light about a candidate, so that is no `WorkerLost`.
        made = await self._provider.create(self._spec)
        try:
            async with made as sandbox:
                for path, text in texts.items():
                    await sandbox.write(path, text)
                return _read(await self._runner.run(sandbox))
        except SandboxError as error:
            raise WorkerLost(str(error)) from error

    async def ready(self) -> Mapping[str, str]:
        """See `Worker.ready`: there is nothing to begin, and nothing is run without a bug."""
        return {}

    async def close(self) -> None:
        """See `Worker.close`."""


def _read(run: TestRun) -> Ran:
    done, report = run.execution, run.report
    found = Ran("finished", "", report.outcomes, report.messages)
    if done.failure == "timeout":
        return dataclasses.replace(found, end="timeout", why="the tests did not end")
    if done.failure == "memory":
        return dataclasses.replace(found, end="memory", why="the tests wanted too much memory")
    if done.exit_code >= 128:
        why = f"signal {done.exit_code - 128} ended the runner"
        return dataclasses.replace(found, end="crashed", why=why)
    if not report.outcomes:
        line = run.printed.strip().rpartition("\n")[2][:300]
        return dataclasses.replace(found, end="does_not_load", why=line or report.problem)
    if report.fault:
        return dataclasses.replace(found, end="crashed", why=report.fault)
    return found
