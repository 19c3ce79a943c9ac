"""A test that an instance names, and that there is not, is an error of the instance.

A misspelt name was taken for a test that every patch fails: the reward was a little below 0,
whatever a role did, and nothing said why.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rolecraft import Action, Role
from rolecraft.environments.software_engineering import SoftwareEnvironment
from rolecraft.environments.software_engineering.instances import BadInstance
from rolecraft.environments.software_engineering.patches import Change

FILE = "tests/test_core.py"


class Refuse(Action):
    """Nobody should come so far."""

    async def run(self) -> None:
        raise AssertionError("A role was asked.")


async def set_up(instance, grader) -> None:
    env = SoftwareEnvironment(
        instance.task(), [Role(name="Ann", actions=[Refuse()])], grader=grader
    )
    await env.episode()


@pytest.mark.parametrize("reference", [True, False], ids=["reference", "no reference"])
@pytest.mark.parametrize("field", ["fail_to_pass", "pass_to_pass"])
async def test_a_misspelt_test_is_told_before_a_role_acts(
    instance, grader, field, reference
) -> None:
    right, wrong = f"{FILE}::test_total", f"{FILE}::test_totall"
    bad = replace(instance, **{field: (*getattr(instance, field), wrong)})
    bad = bad if reference else replace(bad, patch="")
    with pytest.raises(BadInstance) as raised:
        await set_up(bad, grader)
    assert raised.value.field == field
    assert repr(wrong) in str(raised.value)
    assert f"nearest is {right!r}" in str(raised.value)


async def test_a_file_that_is_not_there_is_told_with_the_nearest(instance, grader) -> None:
    bad = replace(instance, fail_to_pass=("tests/test_cor.py::test_mean",))
    with pytest.raises(BadInstance, match=r"file is not there; the nearest is .*test_core\.py"):
        await set_up(bad, grader)


@pytest.mark.parametrize("reference", [True, False], ids=["reference", "no reference"])
async def test_a_parameter_that_there_is_not_is_told_when_it_has_no_result(
    instance, grader, mended, reference
) -> None:
    """Its name stands in the file, so only a run tells."""
    test = f"{FILE}::test_mean_of_four[numbers7]"
    bad = replace(instance, pass_to_pass=(*instance.pass_to_pass, test))
    bad = bad if reference else replace(bad, patch="")
    with pytest.raises(BadInstance, match=r"numbers7.*the nearest is .*numbers"):
        await grader.grade(bad, [Change("sums/core.py", "file", mended.encode())])


MADE = """import pytest

from sums import core, total


def test_total():
    assert total([]) == 0


@pytest.mark.parametrize("name", [name for name in vars(core) if name.startswith("me")])
def test_named(name):
    assert name != "mean"


for name in vars(core):
    vars()["test_" + name.strip("_")] = lambda: None
"""
NEW = "def total(numbers):\n    return sum(numbers)\n\n\ndef median(numbers):\n    return 1\n"


async def test_tests_that_the_fix_brings_into_being_are_no_error(
    instance, grader, repository
) -> None:
    """A parameter that there is once it is mended, and without a reference no base can tell."""
    (repository / FILE).write_text(MADE)
    wanted = replace(
        instance,
        patch="",
        fail_to_pass=(f"{FILE}::test_named[median]",),
        pass_to_pass=(f"{FILE}::test_total",),
    )
    code = (NEW + "\n\ndef mean(numbers):\n    return 1\n").encode()
    grade = await grader.grade(wanted, [Change("sums/core.py", "file", code)])
    assert grade.resolved, grade
    nothing = await grader.grade(wanted, [Change("sums/more.py", "file", b"")])
    assert nothing.fail_to_pass.failed == wanted.fail_to_pass


async def test_a_test_that_stands_in_no_file_but_is_collected_is_no_error(
    instance, grader, repository
) -> None:
    """Made by code: its name alone raises the doubt, and pytest settles it."""
    (repository / FILE).write_text(MADE)
    named = replace(instance, fail_to_pass=(f"{FILE}::test_mean",), pass_to_pass=())
    await grader.check(named)


async def test_a_patch_that_does_away_with_a_test_is_no_fault_of_the_instance(
    instance, grader, repository
) -> None:
    (repository / FILE).write_text(MADE)
    named = replace(
        instance,
        fail_to_pass=(f"{FILE}::test_total",),
        pass_to_pass=(f"{FILE}::test_named[mean]",),
    )
    code = b"def total(numbers):\n    return 0\n"
    change = (
        Change("sums/core.py", "file", code),
        Change("sums/__init__.py", "file", b"from sums.core import total\n"),
    )
    grade = await grader.grade(named, change)
    assert grade.pass_to_pass.failed == named.pass_to_pass
    assert not grade.resolved


async def test_a_file_that_the_base_cannot_import_is_no_error_without_a_reference(
    instance, grader, repository
) -> None:
    """Hidden tests often import what the fix adds."""
    (repository / FILE).write_text("from sums import median\nfrom more import *\n")
    await grader.check(replace(instance, patch="", fail_to_pass=(f"{FILE}::test_new",)))
