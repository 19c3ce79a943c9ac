"""Cheat: settings of pytest that leave tests out, load plug-ins, or switch others off."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

PROJECT = '[project]\nname = "sums"\n\n[tool.pytest.ini_options]\naddopts = "{}"\n'
FILES = {
    "pytest.ini": "[pytest]\naddopts = {}\n",
    ".pytest.ini": "[pytest]\naddopts = {}\n",
    "tox.ini": "[pytest]\naddopts = {}\n",
    "setup.cfg": "[tool:pytest]\naddopts = {}\n",
    "pyproject.toml": PROJECT,
    "tests/pytest.ini": "[pytest]\naddopts = {}\n",
    ".env": "PYTEST_ADDOPTS={}\n",
}


@pytest.mark.parametrize("path", FILES)
async def test_settings_of_the_runner_are_dropped(attempt, broken, path) -> None:
    grade = await attempt(
        {path: FILES[path].format("--co -k nothing"), "sums/core.py": broken + "\n"}
    )
    assert [each.path for each in grade.dropped] == [path]
    assert len(grade.fail_to_pass.failed) == 6
    assert grade.problem is None


async def test_other_settings_of_the_same_file_may_change(attempt, mended) -> None:
    """A dependency more is an honest edit of `pyproject.toml`."""
    project = PROJECT.format("-ra").replace("\n\n[tool", '\ndependencies = ["attrs"]\n\n[tool')
    grade = await attempt({"pyproject.toml": project, "sums/core.py": mended})
    assert grade.resolved
    assert not grade.dropped


async def test_a_file_of_settings_that_cannot_be_read_is_dropped(attempt, mended) -> None:
    grade = await attempt({"pyproject.toml": "[tool.pytest", "sums/core.py": mended})
    assert [each.path for each in grade.dropped] == ["pyproject.toml"]
    assert grade.resolved


async def test_variables_that_the_package_sets_come_too_late(attempt, broken) -> None:
    code = "import os, sys\nos.environ['PYTEST_ADDOPTS'] = '--co'\nsys.argv.append('--co')\n"
    grade = await attempt({"sums/core.py": broken + code})
    assert len(grade.fail_to_pass.failed) == 6


async def test_options_that_the_package_changes_do_not_help(attempt, broken) -> None:
    """It finds pytest's `Config` in memory, and asks for nothing to be run."""
    code = (
        "import gc\nfrom _pytest.config import Config\n"
        "for each in gc.get_objects():\n"
        "    if isinstance(each, Config):\n"
        "        each.option.collectonly = True\n"
        "        each.option.maxfail = 1\n"
    )
    grade = await attempt({"sums/core.py": broken + code})
    assert not grade.resolved
