"""Cheat: links that lead out of the work folder or to the tests, and patches of any size."""

from __future__ import annotations

import dataclasses
import os

import pytest

from rolecraft.environments.software_engineering.grading import LIMITS, MIB, Grader
from rolecraft.environments.software_engineering.patches import (
    MOST_FILES,
    Change,
    PatchError,
    changes_of_text,
    differences,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc", "sums/../../x", ".."])
async def test_a_link_out_of_the_work_folder_is_dropped(grader, instance, mended, target) -> None:
    changes = [
        Change("sums/core.py", "file", mended.encode()),
        Change("data", "link", os.fsencode(target)),
    ]
    grade = await grader.grade(instance, changes)
    assert [each.path for each in grade.dropped] == ["data"]
    assert grade.resolved


async def test_nothing_is_written_through_a_link(grader, instance, mended) -> None:
    """A folder is made a link to the tests, and then a file in it is written."""
    changes = [
        Change("sums/core.py", "file", mended.encode()),
        Change("other", "link", b"tests"),
        Change("other/checks.py", "file", b"import os; os._exit(0)"),
    ]
    grade = await grader.grade(instance, changes)
    assert (grade.problem, grade.applies) == ("patch_does_not_apply", False)
    assert "other/checks.py lies beyond a link" in grade.why


async def test_a_link_in_place_of_a_full_folder_does_not_apply(grader, instance) -> None:
    grade = await grader.grade(instance, [Change("sums", "link", b"tests")])
    assert grade.problem == "patch_does_not_apply"


async def test_a_patch_of_too_many_files_is_refused(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for number in range(MOST_FILES + 1):
        (tmp_path / "b" / str(number)).touch()
    with pytest.raises(PatchError, match="2001 files; 2000 are allowed"):
        differences(tmp_path / "a", tmp_path / "b")


async def test_a_patch_of_too_many_bytes_is_refused(grader, instance) -> None:
    lines = "+x\n" * 8_000_000
    text = f"--- /dev/null\n+++ b/sums/big.py\n@@ -0,0 +1,8000000 @@\n{lines}"
    grade = await grader.grade_text(instance, text)
    assert (grade.problem, grade.resolved) == ("patch_too_large", False)


@pytest.mark.parametrize("path", ["../out.py", "/tmp/out.py", "a/../../out.py", ".git/config"])
async def test_a_diff_that_leads_out_does_not_apply(tmp_path, path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    text = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    with pytest.raises(PatchError, match=r"Patch does not apply"):
        await changes_of_text(base, text + "@@ -0,0 +1 @@\n+x\n")
    assert [each.name for each in tmp_path.iterdir()] == ["base"]


async def test_a_patch_that_leaves_no_memory_for_pytest_is_its_own_fault(bases, instance) -> None:
    """Else it would be no result at all, which is better than a bad one."""
    limits = dataclasses.replace(LIMITS, memory_bytes=64 * MIB)
    grader = Grader(bases=bases, limits=limits)
    if "memory" not in grader.provider.walls:
        pytest.skip("no control group can be made here")
    large = (Change("sums/data", "file", b"x" * (15 * MIB)),)
    grade = await grader.grade(instance, large)
    assert (grade.problem, grade.infrastructure) == ("patch_too_large", "")
    starved = Grader(bases=bases, limits=dataclasses.replace(limits, memory_bytes=4 * MIB))
    assert (await starved.grade(instance, large)).infrastructure, "nor would the base run in that"
