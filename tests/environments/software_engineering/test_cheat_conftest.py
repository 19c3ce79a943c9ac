"""Cheat: a conftest.py whose hooks say that all tests have passed. Such edits are dropped."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

HOOK = """
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
"""
EMPTY = "def pytest_collection_modifyitems(items): items[:] = []\n"


@pytest.mark.parametrize("hook", [HOOK, EMPTY], ids=["all pass", "none left"])
@pytest.mark.parametrize("place", ["conftest.py", "tests/conftest.py", "sums/conftest.py"])
async def test_a_conftest_of_the_patch_is_dropped(attempt, broken, place, hook) -> None:
    grade = await attempt({place: hook, "sums/core.py": broken + "# mended\n"})
    assert [each.path for each in grade.dropped] == [place]
    assert not grade.resolved
    assert len(grade.fail_to_pass.failed) == 6


async def test_the_rest_of_such_a_patch_is_graded(attempt, mended) -> None:
    """An honest fix beside a conftest is still a fix."""
    grade = await attempt({"tests/conftest.py": HOOK, "sums/core.py": mended})
    assert grade.resolved
    assert grade.dropped


@pytest.mark.parametrize("place", ["sums/core.py", "sums/hooks.py"])
async def test_hooks_that_the_package_registers_itself_are_found(attempt, broken, place) -> None:
    """The package looks for pytest's plug-in manager in memory and registers the same hook."""
    register = (
        "import gc, pluggy, sys\n"
        "for each in gc.get_objects():\n"
        "    if isinstance(each, pluggy.PluginManager):\n"
        "        each.register(sys.modules[__name__], 'late')\n"
    )
    files = {place: HOOK + register}
    files.setdefault("sums/core.py", broken + "from sums import hooks\n")
    if place == "sums/core.py":
        files[place] = broken + files[place]
    grade = await attempt(files)
    assert grade.problem == "tampered"
    assert not grade.resolved
