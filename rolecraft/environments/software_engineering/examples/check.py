"""Whether every example is what it says: each side is run twice, as it is graded.

Without its bug all tests of both lists pass; with it exactly those fail that are to be mended. A
test that is another at the second run is named: it would make a task that is won or lost by chance.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

from rolecraft.environments.software_engineering.examples.catalogue import Example, examples
from rolecraft.environments.software_engineering.examples.fetch import Fetched, Pin
from rolecraft.environments.software_engineering.grading import Grade, Grader
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.environments.software_engineering.patches import Change
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.errors import RolecraftError
from rolecraft.sandboxes import SandboxSpec
from rolecraft.sandboxes.test_reports import pytest_command, read_pytest_report_log

NOTHING = (Change("examples-check.txt", "file", b"A patch that mends nothing.\n"),)
RUNS = 2
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Checked:
    """What is wrong with one example; nothing if `problems` is empty."""

    id: str
    problems: tuple[str, ...]


async def check(
    grader: Grader, fetched: Fetched, chosen: Iterable[Example] | None = None
) -> AsyncIterator[Checked]:
    """Check examples (all, unless given), two at a time; they come in their order."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(example: Example) -> Checked:
        async with turn:
            return Checked(example.id, tuple(await _problems(grader, example, fetched)))

    running = [asyncio.ensure_future(one(each)) for each in chosen or examples().values()]
    try:
        for each in running:
            yield await each
    finally:
        for each in running:
            each.cancel()


async def _problems(grader: Grader, example: Example, fetched: Fetched) -> list[str]:
    instance = example.instance(fetched)
    found: list[str] = []
    for _ in range(RUNS):
        clean = await grader.grade_reference(instance)
        found += _said("without the bug", clean)
        if not clean.resolved:
            failed = (*clean.fail_to_pass.failed, *clean.pass_to_pass.failed)
            found.append(f"without the bug it is not solved; not passed: {_listed(failed)}")
        buggy = await grader.grade(instance, NOTHING)
        found += _said("with the bug", buggy)
        if passed := buggy.fail_to_pass.passed:
            found.append(f"with the bug these pass, and should fail: {_listed(passed)}")
        if failed := buggy.pass_to_pass.failed:
            found.append(f"with the bug these fail as well: {_listed(failed)}")
    return list(dict.fromkeys(found))


async def suite_of(grader: Grader, pin: Pin, fetched: Fetched) -> list[str]:
    """The tests that pass in a package as it was published, each of two times.

    Raises `RolecraftError` if the suite cannot be run at all.
    """
    published = Instance(
        id=f"{pin.name}-{pin.version}",
        problem="none",
        fail_to_pass=("none",),
        source=str(fetched.source(pin)),
        environment=str(fetched.environment),
    )
    base, runtime = await grader.bases.of(published), Runtime.of(published)
    spec = SandboxSpec(base=base.graded, readable=runtime.readable, limits=grader.limits)
    passed: list[set[str]] = []
    names: list[str] = []
    for _ in range(RUNS):
        async with await grader.provider.create(spec) as sandbox:
            command = pytest_command(
                pin.suite, python=runtime.python, options=["-q", "-p", "no:cacheprovider"]
            )
            done = await sandbox.run(command, stdin="suite\n")
        report = read_pytest_report_log(done.stdout, exit_code=done.exit_code, token="suite")
        if not report.ok:
            raise RolecraftError(f"The tests of {pin} do not pass: {report}\n{done.stderr[-2000:]}")
        names, passed = report.passed, [*passed, set(report.passed)]
    return [name for name in names if all(name in each for each in passed)]


def _said(side: str, grade: Grade) -> Iterator[str]:
    if grade.infrastructure or grade.problem:
        yield f"{side} there is no result: {grade.infrastructure or grade.why}"


def _listed(tests: Iterable[str]) -> str:
    return ", ".join(tests)
