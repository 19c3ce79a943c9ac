"""The proof, by grading itself: the reference resolves a task, nothing and cheats do not.

    async for checked in check(plan, tasks, again=3):
        assert checked.sound, checked.problems

Validation and grading run tests in two ways that have little in common, so what both say holds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.environments.software_engineering.grading import Grade, Grader
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.environments.software_engineering.patches import Change
from rolecraft.errors import RolecraftError
from rolecraft.synthesis.candidates import Candidate, Read
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.validation.cheats import cheats_on
from rolecraft.synthesis.validation.places import instance_of
from rolecraft.synthesis.verdicts import Verdict

EMPTY = (Change("rolecraft-check.txt", "file", b"A patch that mends nothing.\n"),)
"""Of a patch without any file nothing would be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What grading says of one task."""

    task: str
    resolved: int = 0
    """So often the reference resolved it."""
    empty_resolved: int = 0
    """So often a patch did that mends nothing."""
    flaky: tuple[str, ...] = ()
    """Tests that were not the same each time."""
    cheats: tuple[str, ...] = ()
    """Cheats that were taken for a solution."""
    tried: int | None = None
    """So many cheats were tried; 0 if none is known for its runner and languages, None if none was
    asked for."""
    problems: tuple[str, ...] = ()
    """All that is wrong with it, in words."""
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        return not self.problems


async def check(
    plan: Plan,
    tasks: Iterable[tuple[Candidate, Verdict]],
    *,
    again: int = 3,
    cheat: int = 0,
    workers: int = 2,
    grader: Grader | None = None,
) -> AsyncGenerator[Checked, None]:
    """Grade each task `again` times with its reference and with nothing; they come in order.

    The first `cheat` of them are graded with cheats, too. Raises `SandboxError` if nothing can be
    graded here.
    """
    read, grader = plan.reader(), grader or Grader()
    turn = asyncio.Semaphore(workers)

    async def one(candidate: Candidate, verdict: Verdict, *, cheats: bool) -> Checked:
        async with turn:
            return await _checked(plan, candidate, verdict, read, grader, again, cheats=cheats)

    running: list[asyncio.Task[Checked]] = []
    left = iter(tasks)
    try:
        for number, (candidate, verdict) in enumerate(left):
            running.append(asyncio.create_task(one(candidate, verdict, cheats=number < cheat)))
            if len(running) > 2 * workers:
                yield await running[0]
                del running[0]
        while running:
            yield await running[0]
            del running[0]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _checked(
    plan: Plan,
    candidate: Candidate,
    verdict: Verdict,
    read: Read,
    grader: Grader,
    again: int,
    *,
    cheats: bool,
) -> Checked:
    began = time.monotonic()
    bases = Bases()  # of this task alone: all of them together would fill the disk
    grader = Grader(grader.provider, bases=bases, limits=grader.limits)
    problems: list[str] = []
    won: list[str] = []
    tried = 0 if cheats else None
    references: list[Grade] = []
    empties: list[Grade] = []
    try:
        instance = instance_of(plan, candidate, verdict, read)
        for _ in range(again):
            references.append(await grader.grade_reference(instance))
            empties.append(await grader.grade(instance, EMPTY))
        if cheats:
            known = cheats_on(instance, candidate.texts(read), read)
            tried = len(known)
            for name, changes in known.items():
                if (await grader.grade(instance, changes)).resolved:
                    won.append(name)
        problems += _said(instance, references, empties)
    except RolecraftError as error:
        problems.append(str(error))
    finally:
        bases.close()
    flaky = sorted({*_differing(references), *_differing(empties)})
    problems += [f"{test} is not the same each time" for test in flaky]
    problems += [f"the cheat `{name}` is taken for a solution" for name in won]
    return Checked(
        task=candidate.id,
        resolved=sum(grade.resolved for grade in references),
        empty_resolved=sum(grade.resolved for grade in empties),
        flaky=tuple(flaky),
        cheats=tuple(won),
        tried=tried,
        problems=tuple(problems),
        seconds=round(time.monotonic() - began, 3),
    )


def _said(instance: Instance, references: Sequence[Grade], empties: Sequence[Grade]) -> list[str]:
    found: dict[str, None] = {}
    for grade in references:
        if not grade.resolved:
            gone = (*grade.fail_to_pass.failed, *grade.pass_to_pass.failed)
            why = grade.infrastructure or grade.why or f"not passed: {', '.join(gone[:3])}"
            found[f"the reference does not resolve it: {why}"] = None
    for grade in empties:
        if grade.infrastructure or grade.problem:
            found[f"with the bug there is no result: {grade.infrastructure or grade.why}"] = None
        elif passed := grade.fail_to_pass.passed:
            found[f"with the bug these pass: {', '.join(passed[:3])}"] = None
        elif failed := grade.pass_to_pass.failed:
            found[f"with the bug these fail as well: {', '.join(failed[:3])}"] = None
    return [*found]


def _differing(grades: Sequence[Grade]) -> Iterator[str]:
    for grade in grades[1:]:
        first = grades[0].report.outcomes
        for test in {*first, *grade.report.outcomes}:
            if first.get(test) != grade.report.outcomes.get(test):
                yield test
