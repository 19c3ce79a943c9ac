"""Cheat: settings that pytest reads and the grader does not, by a section that is spelt oddly.

pytest's own parser takes `[pytest] # ]` for the section `pytest`; others do not. So the grader does
not tell which sections count: pytest gets the settings of the base, from a file of the grader's.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rolecraft.environments.software_engineering.patches import Change

PLUGIN = """import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    if call.excinfo and item.obj.__name__ == item.name.split("[")[0]:
        call.excinfo = None
    yield
"""
FILES = {"tox.ini": "[pytest] # ]\n", "setup.cfg": "[tool:pytest] # ]\n"}


@pytest.mark.parametrize("path", FILES)
async def test_a_section_that_only_pytest_reads_loads_no_plugin(
    attempt, repository, broken, path
) -> None:
    (repository / "pyproject.toml").write_text('[project]\nname = "sums"\n')
    settings = FILES[path] + "addopts = -p zz\npythonpath = .\n"
    grade = await attempt({path: settings, "zz.py": PLUGIN, "sums/core.py": broken + "\n"})
    assert not grade.resolved
    assert len(grade.fail_to_pass.failed) == 6


SETTINGS = {
    "pytest.ini": "[pytest]\n{}\n",
    "tox.ini": "[pytest]\n{}\n",
    "setup.cfg": "[tool:pytest]\n{}\n",
    "tests/tox.ini": "[pytest]\n{}\n",
}


@pytest.mark.parametrize("path", SETTINGS)
async def test_settings_of_the_base_count(grader, instance, repository, mended, path) -> None:
    """`python_functions` finds none of the functions, so that only the methods are left. (With a
    reference, which cannot mend the others either, the instance would be in error.)
    """
    (repository / "pyproject.toml").write_text('[project]\nname = "sums"\n')
    (repository / path).write_text(SETTINGS[path].format("python_functions = nothing_*"))
    kept = ("tests/test_core.py::OldTests::test_total",)
    instance = replace(instance, patch="", pass_to_pass=kept)
    grade = await grader.grade(instance, [Change("sums/core.py", "file", mended.encode())])
    assert "tests/test_core.py::OldTests::test_mean" in grade.fail_to_pass.passed
    assert "tests/test_core.py::test_mean" in grade.fail_to_pass.failed


async def test_a_plugin_that_settings_of_the_base_name_may_not_replace_the_runner(
    attempt, repository, broken
) -> None:
    """It is loaded before conftest files; the runner is counted before."""
    (repository / "sums/plugin.py").write_text("")
    (repository / "pytest.ini").write_text("[pytest]\naddopts = -p sums.plugin\npythonpath = .\n")
    code = (
        "import _pytest.reports as r\n"
        "made = r.TestReport.from_item_and_call.__func__\n"
        "def passed(cls, item, call):\n"
        "    call.excinfo = None\n"
        "    return made(cls, item, call)\n"
        "r.TestReport.from_item_and_call = classmethod(passed)\n"
    )
    grade = await attempt({"sums/plugin.py": code, "sums/core.py": broken + "\n"})
    assert not grade.resolved
