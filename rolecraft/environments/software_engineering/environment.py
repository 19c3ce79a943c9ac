"""The environment of `software_engineering`: a repository with a fault, in a sandbox."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from rolecraft.environments.software_engineering.bases import Base
from rolecraft.environments.software_engineering.grading import Grade, Grader
from rolecraft.environments.software_engineering.instances import Instance, Unsupported
from rolecraft.environments.software_engineering.patches import (
    Change,
    Manifest,
    PatchError,
    changes_in,
    manifest,
    new_litter,
)
from rolecraft.environments.software_engineering.quality import Quality, quality_of
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.unified import diff
from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.errors import RolecraftError, SandboxError, UsageError
from rolecraft.roles import Role
from rolecraft.sandboxes import LiveSandbox, Remote, SandboxProvider, SandboxSpec
from rolecraft.trajectories.events import Artifact, Event, Signal

MOST_SHOWN = 2**20
"""Of a diff that is longer, so many characters are recorded."""


class SoftwareEnvironment(TaskEnvironment):
    """One instance to solve. Roles work in `sandbox`, where the hidden tests are not. Signals:

    - `resolved`: 1 if every test passes and nothing else is wrong, else 0;
    - `fail_to_pass.passed`, `fail_to_pass.failed`, `pass_to_pass.passed`, `pass_to_pass.failed`;
    - `patch.applies`: 1 if the patch could be put on a fresh base;
    - `files.touched`: files of the code that it changes; `edits.dropped`: edits that were not
      graded; `tampering`: 1 if it meddled with the runner;
    - `lines.added`, `lines.removed` of all files of text, and for the touched Python files together
      `complexity.before`, `complexity.after`, `size.before`, `size.after` (lines), and, with ruff,
      `ruff.before`, `ruff.after` (findings). What cannot be measured is left out, and the record
      says why;
    - `seconds` from setup to grading, `cost` in US dollars where it is known, and `turns`.

    Where nothing could be measured, for want of a sandbox or an image, the first two kinds are
    not there at all and an event `error` says why. `last_grade` has all about it.
    """

    def __init__(
        self,
        task: Task,
        roles: Iterable[Role] = (),
        *,
        provider: SandboxProvider | None = None,
        grader: Grader | None = None,
        **options: Any,
    ) -> None:
        super().__init__(task, roles, **options)
        self.instance = Instance.of(task)
        self.grader = grader or Grader(provider)
        self._provider = provider
        self.last_grade: Grade | None = None
        self._sandbox: LiveSandbox | None = None
        self._base: Base | None = None
        self._before: Manifest = {}
        self._started = time.monotonic()
        self.about.setdefault("outcome", {"signal": "resolved", "at_least": 1})

    @property
    def provider(self) -> SandboxProvider:
        """Where the roles work: where patches are graded, unless given."""
        return self._provider or self.grader.provider

    @property
    def sandbox(self) -> LiveSandbox:
        """Where the roles work. Raises `UsageError` before `setup`."""
        if self._sandbox is None:
            raise UsageError(f"The sandbox of {self.id!r} is there from `setup` to `aclose` only.")
        return self._sandbox

    async def setup(self) -> None:
        """Prepare the sandbox. Raises `Unsupported`, `BadInstance` if a test that is named is not
        there, or `SandboxError` if there can be no sandbox.
        """
        self._started = time.monotonic()
        self._base = await self.grader.bases.of(self.instance)
        runtime = Runtime.of(self.instance)
        readable: tuple[str | Path, ...] = runtime.readable
        commands: Path | None = None
        if runtime.site and not isinstance(self.provider, Remote):  # its folders are the server's
            commands = await self.grader.bases.commands(runtime)
            readable = (*readable, commands)
        spec = SandboxSpec(
            base=self._base.agent,
            readable=readable,
            env=runtime.variables(commands),
            limits=self.grader.limits,
        )
        self._sandbox = await self.provider.create(spec)
        if runtime.site:
            await self._check_python(runtime.python)
        if self.instance.runner == "pytest" and "pytest" not in runtime.installed:
            await self._check_pytest()  # before a model is paid for what nobody could grade
        await self.grader.check(self.instance)  # likewise
        self._before = await manifest(self._sandbox)

    async def _check_python(self, name: str) -> None:
        """Raise `Unsupported` if the Python that stands in for the instance's own is not there."""
        if not (await self.sandbox.run(["sh", "-c", 'command -v "$1"', "sh", name])).ok:
            where = self.instance.environment or sys.prefix
            raise Unsupported(
                self.instance.id,
                f"`{name}` in the sandbox, since its environment `{where}` has no Python that can "
                f"be read there (under root by `nobody`, so not below `/root`): install `{name}` "
                f"for all, or name a venv of a Python that everybody can read, "
                f"`Instance(environment=...)`",
            )

    async def _check_pytest(self) -> None:
        """Raise `Unsupported` if the instance's Python has no pytest from elsewhere either."""
        looks = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pytest') is None)"
        if (await self.sandbox.run(["python3", "-c", looks])).exit_code == 0:
            return
        where = self.instance.environment or sys.prefix
        raise Unsupported(
            self.instance.id,
            f"pytest in its environment `{where}`: install it there, or name another venv, "
            f"`Instance(environment=...)`",
        )

    async def grade(self) -> list[Signal]:
        """Grade what the sandbox holds now, in another one."""
        assert self._base is not None
        litter: tuple[str, ...] = ()
        try:
            after = await manifest(self.sandbox)
            litter = new_litter(self._before, after)
            changes = await changes_in(self.sandbox, self._before, after)
        except PatchError as error:
            grade = self.grader.refused(self.instance, error)
        except SandboxError as error:
            grade = Grade(instance=self.instance.id, infrastructure=str(error))
        else:
            await self._record_patch(self._base, changes)
            grade = await self.grader.grade(self.instance, changes)
        self.last_grade = grade
        quality = await quality_of(self._base.agent, grade.kept)
        self._record_grade(grade, [*_of_litter(litter), *quality.without])
        return [*_of_tests(grade), *_of_patch(grade, quality), *self._of_run()]

    async def aclose(self) -> None:
        """Close the sandbox."""
        try:
            if self._sandbox is not None:
                await self._sandbox.close()
        finally:
            await super().aclose()

    async def _record_patch(self, base: Base, changes: tuple[Change, ...]) -> None:
        try:
            text = await asyncio.to_thread(diff, base.agent, changes)
        except (OSError, RolecraftError) as error:  # what is only shown decides nothing
            text = f"There is no diff of {len(changes)} changed files: {error}\n"
        if len(text) > MOST_SHOWN:
            text = f"{text[:MOST_SHOWN]}\n… and {len(text) - MOST_SHOWN} more characters.\n"
        made = Artifact("patch.diff", sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        self.record(Event("artifact", content=text, artifact=made))

    def _record_grade(self, grade: Grade, remarks: list[str]) -> None:
        if grade.infrastructure:
            about = {"type": "InfrastructureFailure"}
            self.record(Event("error", content=grade.infrastructure, data=about))
            return
        said = [f"{grade.problem}: {grade.why}"] if grade.problem else []
        said += [
            f"{name}: {len(tests.passed)} passed, {len(tests.failed)} failed"
            + "".join(f"\n  failed: {_named(test, grade)}" for test in tests.failed[:20])
            for name, tests in (("to mend", grade.fail_to_pass), ("to keep", grade.pass_to_pass))
        ]
        said += [f"not graded: {each.path}, {each.why}" for each in grade.dropped[:20]]
        said += remarks
        tests = {
            "to mend": {
                "passed": [*grade.fail_to_pass.passed],
                "failed": [*grade.fail_to_pass.failed],
            },
            # Of these there may be thousands, so those that pass are only counted.
            "to keep": {
                "passed": len(grade.pass_to_pass.passed),
                "failed": [*grade.pass_to_pass.failed],
            },
        }
        data = {"target": "patch.diff", "passed": grade.resolved, "verdict": grade.verdict}
        self.record(Event("verify", content="\n".join(said), data=data | {"tests": tests}))

    def _of_run(self) -> list[Signal]:
        signals = [Signal("seconds", self._seconds(), unit="s")]
        usd = self.trajectory.usage.usd
        return [*signals, Signal("cost", usd, unit="USD")] if usd is not None else signals

    def _seconds(self) -> float:
        """Of an episode that is graded again from its record, what the record says."""
        for event in self.past.known if self.past is not None else ():
            if event.kind == "signal" and event.data.get("name") == "seconds":
                return float(event.data["value"])
        return round(time.monotonic() - self._started, 3)


def _of_tests(grade: Grade) -> list[Signal]:
    if grade.infrastructure:
        return []
    return [
        Signal("resolved", float(grade.resolved)),
        *(
            Signal(f"{name}.{part}", float(len(found)), unit="tests")
            for name, tests in (
                ("fail_to_pass", grade.fail_to_pass),
                ("pass_to_pass", grade.pass_to_pass),
            )
            for part, found in (("passed", tests.passed), ("failed", tests.failed))
        ),
        Signal("patch.applies", float(grade.applies)),
        Signal("tampering", float(grade.problem == "tampered")),
    ]


def _named(test: str, grade: Grade) -> str:
    """A failed test; one that the runner's report does not have was not failed, but never run."""
    ran = not grade.report.outcomes or test in grade.report.outcomes
    return test if ran else f"{test} (no test of this id was run)"


def _of_litter(paths: tuple[str, ...]) -> list[str]:
    if not paths:
        return []
    more = f" and {len(paths) - 20} more" if len(paths) > 20 else ""
    return [f"left behind by tools, by its name, so not graded: {', '.join(paths[:20])}{more}"]


def _of_patch(grade: Grade, quality: Quality) -> list[Signal]:
    measured: dict[str, tuple[int | None, str]] = {
        "files.touched": (len(grade.kept), "files"),
        "edits.dropped": (len(grade.dropped), "files"),
        "lines.added": (quality.lines_added, "lines"),
        "lines.removed": (quality.lines_removed, "lines"),
        "size.before": (quality.before.lines, "lines"),
        "size.after": (quality.after.lines, "lines"),
        "complexity.before": (quality.before.complexity, ""),
        "complexity.after": (quality.after.complexity, ""),
        "ruff.before": (quality.before.findings, "findings"),
        "ruff.after": (quality.after.findings, "findings"),
    }
    return [
        Signal(name, float(value), unit=unit)
        for name, (value, unit) in measured.items()
        if value is not None
    ]
