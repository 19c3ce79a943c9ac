"""Cheat: expect the failure. An expected failure counts as passed, as tests may be marked so.

Only the tests themselves may expect it: an `xfail` that code of the patch calls is a failure.
"""

from __future__ import annotations

import pytest

EXPECTED = {
    "in the function": "import pytest\ndef mean(numbers): pytest.xfail('known')\n",
    "from a text": "def mean(numbers): exec('import pytest; pytest.xfail(1)')\n",
    "by its exception": (
        "import pytest\ndef mean(numbers): raise pytest.xfail.Exception('known')\n"
    ),
}


@pytest.mark.parametrize("code", EXPECTED.values(), ids=EXPECTED)
async def test_a_failure_that_the_patch_expects_is_a_failure(attempt, broken, code) -> None:
    grade = await attempt({"sums/core.py": broken + code})
    assert not grade.resolved
    assert not grade.fail_to_pass.passed


async def test_a_mark_that_the_package_puts_on_its_tests_does_not_help(attempt, broken) -> None:
    """`sums` finds the test module that is importing it and marks all of it as failing."""
    code = (
        "import sys, pytest\n"
        "for frame in sys._current_frames().values():\n"
        "    while frame is not None:\n"
        "        if 'test_core' in frame.f_globals.get('__name__', ''):\n"
        "            frame.f_globals['pytestmark'] = pytest.mark.xfail\n"
        "        frame = frame.f_back\n"
    )
    grade = await attempt({"sums/core.py": broken + code})
    assert not grade.resolved
