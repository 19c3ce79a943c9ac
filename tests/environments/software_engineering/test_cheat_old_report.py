"""Cheat: a report of results that lies there before the tests run, in the base or by the patch."""

from __future__ import annotations

import dataclasses

import pytest

from rolecraft.environments.software_engineering.patches import Change

pytestmark = pytest.mark.slow

REPORTS = {
    "junit": '<testsuite><testcase name="t"/></testsuite>',
    "ctest": (
        "<Site><Testing><Test Status='passed'><FullName>t</FullName></Test></Testing></Site>"
    ),
}


@pytest.mark.parametrize("runner", REPORTS)
async def test_a_report_that_the_command_did_not_write_is_none(
    grader, repository, instance, mended, runner
) -> None:
    (repository / "out.xml").write_text(REPORTS[runner])
    given = {"runner": runner, "test_command": ("true",), "report": "out.xml"}
    instance = dataclasses.replace(instance, id=f"old-{runner}", fail_to_pass=("t",), **given)
    instance = dataclasses.replace(instance, pass_to_pass=())
    grade = await grader.grade(instance, [Change("sums/core.py", "file", mended.encode())])
    assert not grade.infrastructure
    assert not grade.resolved
    assert grade.problem == "never_ran"
