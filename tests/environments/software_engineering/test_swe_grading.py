"""Grading of honest patches: the reference is resolved, nothing else is by accident."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rolecraft.environments.software_engineering import grading
from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.environments.software_engineering.grading import Grader
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.environments.software_engineering.patches import Change
from rolecraft.sandboxes import Landlock
from rolecraft.sandboxes.landlock import why_not


async def test_the_reference_is_resolved_by_every_test(grader, instance) -> None:
    grade = await grader.grade_reference(instance)
    assert grade.resolved, (grade.infrastructure, grade.problem, grade.why, grade.output)
    assert grade.fail_to_pass.passed == instance.fail_to_pass
    assert grade.pass_to_pass.passed == instance.pass_to_pass
    assert not grade.tampering


async def test_no_patch_is_not_resolved(grader, instance) -> None:
    grade = await grader.grade(instance, [])
    assert (grade.resolved, grade.problem) == (False, "no_patch")
    assert grade.fail_to_pass.failed == instance.fail_to_pass


async def test_no_patch_breaks_nothing(grader, instance) -> None:
    """Every test to keep was told to have failed, though nothing was changed."""
    grade = await grader.grade(instance, [])
    assert grade.pass_to_pass.passed == instance.pass_to_pass
    assert not grade.pass_to_pass.failed
    assert grade.applies


async def test_what_landlock_refuses_is_no_fault_of_a_patch(
    instance: Instance, repository: Path, bases: Bases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody chose Landlock, and not even the instance's own solution passes there."""
    if why_not():
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr(grading, "default_provider", lambda: landlock)
    landlock = Landlock()
    needs = "\n\ndef test_lock():\n    import multiprocessing\n\n    multiprocessing.Lock()\n"
    tests = repository / "tests" / "test_core.py"
    tests.write_text(tests.read_text() + needs)
    locking = dataclasses.replace(
        instance,
        id="sums-lock",
        pass_to_pass=(*instance.pass_to_pass, "tests/test_core.py::test_lock"),
    )
    wrong = [Change("sums/core.py", "file", b"def total(numbers):\n    return 0\n")]
    grade = await Grader(bases=bases).grade(locking, wrong)
    assert "own solution does not pass under Landlock" in grade.infrastructure
    assert not grade.resolved
    told = await Grader(bases=bases).grade(instance, wrong)
    assert not told.infrastructure, "here it does, so the patch is wrong"
    asked = await Grader(landlock, bases=bases).grade(locking, wrong)
    assert not asked.infrastructure, "somebody chose it"
