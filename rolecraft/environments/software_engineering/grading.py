"""Grading: the code of a patch, in a fresh sandbox, by tests that the agent has not had in hand.

    grader = Grader(Bubblewrap())
    grade = await grader.grade(instance, changes)      # or `grade_text(instance, diff)`
    grade.resolved, grade.verdict, grade.problem

The patch without its edits to tests and to what steers the runner is put on the base; the tests
run there under a guard; their report, its end and the exit code must all say the same. See
`_guard.py` for what is watched. Code under test shares the runner's process, and code that knows
the guard can in the end speak in its name: docs/software-engineering-grading.md says
what remains.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rolecraft.environments.software_engineering._guarded_run import GuardedRun
from rolecraft.environments.software_engineering._program_ends import (
    Ends,
    Watch,
    with_success,
    words,
)
from rolecraft.environments.software_engineering.bases import Base, Bases, shared_bases
from rolecraft.environments.software_engineering.instances import Instance, Unsupported
from rolecraft.environments.software_engineering.named_tests import (
    check_collected,
    collect,
    doubtful_names,
)
from rolecraft.environments.software_engineering.patches import (
    Change,
    PatchError,
    changes_of_text,
    put,
)
from rolecraft.environments.software_engineering.rules import (
    KEPT,
    MENDED,
    Tests,
    Verdict,
    outcome_of,
    parted,
    verdict_of,
)
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.taken import Dropped, take
from rolecraft.errors import SandboxError
from rolecraft.sandboxes import (
    Execution,
    Landlock,
    SandboxLimits,
    SandboxProvider,
    SandboxSpec,
    default_provider,
)
from rolecraft.sandboxes.test_reports import TestReport
from rolecraft.sandboxes.test_runners import CTestXml, JUnit

MIB = 2**20
LIMITS = SandboxLimits(
    seconds=900,
    cpu_seconds=900,
    memory_bytes=2048 * MIB,
    processes=256,
    file_bytes=256 * MIB,
    disk_bytes=1024 * MIB,
    output_bytes=16 * MIB,
)
"""What the tests of an instance may use."""

_UNSOLVABLE = (
    "the instance's own solution does not pass under Landlock, which was taken because Bubblewrap "
    "is not allowed here and which refuses programs some things (locks between processes, sockets, "
    "files in /tmp); grade it where Bubblewrap works, or with `Docker` or `Remote`"
)

Problem = Literal[
    "no_patch",  # nothing is left to grade
    "patch_does_not_apply",
    "patch_too_large",
    "timeout",
    "memory",
    "crashed",  # a signal ended the runner
    "never_ran",  # the runner ended early, or found no test
    "not_graded",  # the exit code and the report do not agree
    "tampered",  # the report is forged, or the runner was meddled with
]
"""Why a patch is not resolved, other than by tests that fail. Each is the patch's doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What came of grading one patch. `infrastructure` is not empty where nothing was measured:
    then the rest says nothing about the patch, and `resolved` is False only for the count.
    """

    instance: str
    verdict: Verdict = "no"
    fail_to_pass: Tests = field(default_factory=Tests)
    pass_to_pass: Tests = field(default_factory=Tests)
    problem: Problem | None = None
    why: str = ""
    """The problem in words."""
    infrastructure: str = ""
    """Why nothing could be measured: no sandbox, an image that is not there, …"""
    applies: bool = True
    kept: tuple[Change, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    tampering: tuple[str, ...] = ()
    report: TestReport = field(default_factory=TestReport)
    output: str = ""
    """The last of what the runner printed, for people."""
    seconds: float = 0.0

    @property
    def resolved(self) -> bool:
        """All tests pass, and there is no problem."""
        return self.verdict == "full" and self.problem is None and not self.infrastructure


def resolved_share(grades: Sequence[Grade]) -> float:
    """The share of all grades that are resolved; those without a measurement count as not."""
    return sum(grade.resolved for grade in grades) / len(grades) if grades else 0.0


class Grader:
    """Grades patches, each in a sandbox of its own. One object serves any number at once."""

    def __init__(
        self,
        provider: SandboxProvider | None = None,
        *,
        bases: Bases | None = None,
        limits: SandboxLimits = LIMITS,
        attempts: int = 2,
    ) -> None:
        self._provider = provider
        self.bases = bases or shared_bases()
        self.limits = limits
        self.attempts = attempts
        """How often a sandbox that is lost is made again."""

    @property
    def provider(self) -> SandboxProvider:
        """Where patches are graded: `default_provider()`, and its errors, unless given."""
        return self._provider or default_provider()

    async def grade_text(self, instance: Instance, patch: str) -> Grade:
        """Grade a unified diff against the agent's folder. See `grade`."""
        try:
            base = await self.bases.of(instance)
            changes = await changes_of_text(base.agent, patch)
        except Unsupported as error:
            return Grade(instance=instance.id, infrastructure=str(error))
        except PatchError as error:
            return _unrun(instance, error.kind, error.reason)
        return await self.grade(instance, changes)

    async def grade_reference(self, instance: Instance) -> Grade:
        """Grade the instance's own solution. Raises `BadInstance` if it does not apply."""
        return await self.grade(instance, await self.bases.reference(instance))

    async def grade(self, instance: Instance, changes: Sequence[Change]) -> Grade:
        """Grade changes of the agent's folder.

        Whatever the patch does is a `problem` of the result. What is no doing of the patch is its
        `infrastructure`. Raises `BadInstance` for an instance that cannot be used at all, such as
        one with a test that there is not.
        """
        started = time.monotonic()
        try:
            base = await self.bases.of(instance)
            runtime = Runtime.of(instance)
        except Unsupported as error:
            return Grade(instance=instance.id, infrastructure=str(error))
        taken = take(changes, instance, base.graded, installed=runtime.installed)
        if not taken.kept:
            return _unchanged(instance, taken.dropped)
        lost = ""
        for _ in range(self.attempts):
            try:
                await self._check_named(instance, doubtful_names(instance, base))
                grade = await self._run(instance, base, runtime, taken.kept)
                if grade.problem is None and instance.runner == "pytest":
                    await self._check_named(instance, _without_result(instance, grade.report))
                if not grade.resolved and not await self._is_solvable_here(instance, base, runtime):
                    grade = Grade(instance=instance.id, infrastructure=_UNSOLVABLE)
            except SandboxError as error:
                lost = str(error)
                continue
            return dataclasses.replace(
                grade,
                kept=taken.kept,
                dropped=taken.dropped,
                seconds=time.monotonic() - started,
            )
        return Grade(
            instance=instance.id, infrastructure=lost, kept=taken.kept, dropped=taken.dropped
        )

    async def check(self, instance: Instance) -> None:
        """Raise `BadInstance` if it names a test that is not there, as far as can be told before
        grading, and `SandboxError` if that takes a sandbox and there is none.
        """
        await self._check_named(instance, doubtful_names(instance, await self.bases.of(instance)))

    async def _check_named(self, instance: Instance, doubtful: Sequence[str]) -> None:
        if not doubtful:
            return
        base, runtime = await self.bases.of(instance), Runtime.of(instance)
        reference = await self.bases.reference(instance) if instance.patch else ()
        kept = take(reference, instance, base.graded, installed=runtime.installed).kept
        known, key = self.bases.known(self.provider), (base.graded, runtime, self.limits)
        found = known.collected.get(key)
        if found is None:
            found = await collect(
                self.provider, self.limits, instance, base, runtime, reference=kept
            )
            if found is None:
                return
            known.collected.put(key, found)
        check_collected(instance, doubtful, found, base)

    async def _is_solvable_here(self, instance: Instance, base: Base, runtime: Runtime) -> bool:
        """Whether the instance's own solution passes in a sandbox that nobody chose and that may
        refuse programs what they need. Asked once for each instance.
        """
        provider = self.provider
        if self._provider is not None or not isinstance(provider, Landlock) or not instance.patch:
            return True
        solvable, key = self.bases.known(provider).solvable, (instance.id, base.graded, self.limits)
        if (found := solvable.get(key)) is None:
            reference = await self.bases.reference(instance)
            kept = take(reference, instance, base.graded, installed=runtime.installed).kept
            found = (await self._run(instance, base, runtime, kept)).resolved
            solvable.put(key, found)
        return found

    def refused(self, instance: Instance, error: PatchError) -> Grade:
        """The grade of work that is no patch that could be graded."""
        return _unrun(instance, error.kind, error.reason)

    async def _run(
        self, instance: Instance, base: Base, runtime: Runtime, changes: tuple[Change, ...]
    ) -> Grade:
        try:
            if instance.runner != "pytest":
                grade, ends = await self._reported(instance, base, runtime, changes)
                if not grade.resolved:  # then one that says nothing may honestly have failed
                    ends = with_success(ends)
                if grade.problem or not grade.fail_to_pass.passed or not ends:
                    return grade
                ends -= await self._excused(instance, base, runtime)
                return _ended_early(grade, ends) if ends else grade
            known = self.bases.known(self.provider)
            run = GuardedRun(self.provider, self.limits, known, instance, base, runtime)
            ran = await run.patched(changes)
        except PatchError as error:
            return _unrun(instance, error.kind, error.reason)
        if ran.tampering or ran.doubtful(instance):
            ran = ran.less(await run.unpatched(changes), instance)
        return _graded(instance, ran.done, ran.report, ran.tampering, self.limits)

    async def _reported(
        self, instance: Instance, base: Base, runtime: Runtime, changes: tuple[Change, ...]
    ) -> tuple[Grade, Ends]:
        """By a report that the command writes, which anything in the sandbox could have written;
        and how the programs ended that it ran. Raises `PatchError` if the changes do not fit.
        """
        watch = Watch()
        command = watch.command(instance.test_command, runtime.python)
        runner = (JUnit if instance.runner == "junit" else CTestXml)(command, instance.report)
        spec = SandboxSpec(base=base.graded, readable=runtime.readable, limits=self.limits)
        async with await self.provider.create(spec) as sandbox:
            await put(sandbox, changes, python=runtime.python)
            ran, ends = watch.read(await runner.run(sandbox))
        return _graded(instance, ran.execution, ran.report, [], self.limits), ends

    async def _excused(self, instance: Instance, base: Base, runtime: Runtime) -> Ends:
        """How programs end with the instance's own solution; without one, as it is. The same is
        run once.
        """
        known, key = self.bases.known(self.provider).ends, (instance.id, base.graded, self.limits)
        if (found := known.get(key)) is None:
            reference = await self.bases.reference(instance) if instance.patch else ()
            kept = take(reference, instance, base.graded, installed=runtime.installed).kept
            _, found = await self._reported(instance, base, runtime, kept)
            known.put(key, found)
        return found


def _ended_early(grade: Grade, ends: Ends) -> Grade:
    why = words(ends)
    return dataclasses.replace(grade, verdict="no", problem="tampered", why=why, tampering=(why,))


def _graded(
    instance: Instance,
    done: Execution,
    report: TestReport,
    tampering: list[str],
    limits: SandboxLimits,
) -> Grade:
    fail_to_pass = parted(instance.fail_to_pass, report.outcomes, MENDED)
    pass_to_pass = parted(instance.pass_to_pass, report.outcomes, KEPT)
    problem, why = _problem(done, report, tampering, limits)
    return Grade(
        instance=instance.id,
        verdict="no" if problem else verdict_of(fail_to_pass, pass_to_pass),
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
        problem=problem,
        why=why,
        tampering=tuple(tampering),
        report=report,
        output=done.stderr[-20_000:],
    )


def _problem(
    done: Execution, report: TestReport, tampering: list[str], limits: SandboxLimits
) -> tuple[Problem | None, str]:
    if done.failure == "timeout":
        return "timeout", f"the tests did not end within {limits.seconds:g} seconds"
    if done.failure == "memory":
        most = limits.memory_bytes // MIB
        return "memory", f"the tests took more memory than they may, {most} MiB"
    if tampering:
        return "tampered", "; ".join(tampering)
    if done.exit_code >= 128:
        return "crashed", f"signal {done.exit_code - 128} ended the test runner"
    if not report.outcomes:
        return "never_ran", report.problem or "no test was found"
    if not report.finished:
        return "never_ran", report.problem
    if report.fault:
        return "tampered", report.fault
    if report.problem:
        return "not_graded", report.problem
    return None, ""


def _without_result(instance: Instance, report: TestReport) -> list[str]:
    """The named tests that were not run, as far as that may be the instance's doing: without a
    reference nothing more is told of those to mend.
    """
    fixed = instance.fail_to_pass if instance.patch else ()
    return [
        test
        for test in (*fixed, *instance.pass_to_pass)
        if test not in report.outcomes and outcome_of(test, report.outcomes) is None
    ]


def _unchanged(instance: Instance, dropped: tuple[Dropped, ...]) -> Grade:
    """Of the base as it is: by what the two lists say of it, so nothing is run."""
    return Grade(
        instance=instance.id,
        fail_to_pass=Tests(failed=instance.fail_to_pass),
        pass_to_pass=Tests(passed=instance.pass_to_pass),
        problem="no_patch",
        why="it changes nothing that is graded, so no test was run",
        dropped=dropped,
    )


def _unrun(instance: Instance, problem: Problem, why: str) -> Grade:
    return Grade(
        instance=instance.id,
        fail_to_pass=Tests(failed=instance.fail_to_pass),
        pass_to_pass=Tests(failed=instance.pass_to_pass),
        problem=problem,
        why=why,
        applies=False,
    )
