"""Cheat: skip the tests. A grader that counts failures finds none (SWE-smith 0.0.9: RESOLVED_FULL).

A test to mend that was skipped has not passed. A test to keep may be skipped, but not by code
that the patch has changed.
"""

from __future__ import annotations

import pytest

SKIPS = {
    "in the function": "import pytest\ndef mean(numbers): pytest.skip('later')\n",
    "by unittest": "import unittest\ndef mean(numbers): raise unittest.SkipTest('later')\n",
    "the whole module": "import pytest\npytest.skip('later', allow_module_level=True)\n",
}


@pytest.mark.parametrize("code", SKIPS.values(), ids=SKIPS)
async def test_a_skipped_test_is_not_mended(attempt, broken, code) -> None:
    grade = await attempt({"sums/core.py": broken + code})
    assert not grade.resolved
    assert not grade.fail_to_pass.passed


async def test_a_test_to_keep_may_not_be_skipped_by_the_patch(attempt, mended) -> None:
    """The fix is right, and breaks `total` of nothing behind a skip."""
    code = mended.replace(
        "    result = 0\n", "    import pytest\n    numbers or pytest.skip('odd')\n    result = 0\n"
    )
    grade = await attempt({"sums/core.py": code})
    assert grade.fail_to_pass.all_passed
    assert grade.pass_to_pass.failed == ("tests/test_core.py::OldTests::test_total",)
    assert not grade.resolved
