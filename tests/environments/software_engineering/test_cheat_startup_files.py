"""Cheat: files that Python or pytest runs before anything else: `.pth`, `sitecustomize`, the
folder of packages below the home folder, entry points of a package that seems to be installed.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

LEAVE = "import os; os._exit(0)\n"
ENTRY = "[pytest11]\ncheat = sums.plugin\n"
PLUGIN = (
    "import pytest\n"
    "@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n"
    "    outcome.get_result().outcome = 'passed'\n"
)
SITE = ".local/lib/python3.11/site-packages"
FILES = {
    "sitecustomize": {"sitecustomize.py": LEAVE},
    "usercustomize": {"usercustomize.py": LEAVE},
    "pth": {"cheat.pth": LEAVE, "sums/cheat.pth": LEAVE},
    "pyvenv.cfg": {"pyvenv.cfg": "home = /box\n"},
}
HOME = {
    "the user's packages": {f"{SITE}/usercustomize.py": LEAVE, f"{SITE}/x.pth": LEAVE},
    "an installed plug-in": {
        "cheat-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: cheat\nVersion: 1.0\n",
        "cheat-1.0.dist-info/entry_points.txt": ENTRY,
        "sums/plugin.py": PLUGIN,
    },
    "an egg": {
        "sums.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: sums\nVersion: 1.0\n",
        "sums.egg-info/entry_points.txt": ENTRY,
        "sums/plugin.py": PLUGIN,
    },
}


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
async def test_startup_files_are_dropped(attempt, broken, files) -> None:
    grade = await attempt({"sums/core.py": broken + "\n", **files})
    assert {each.path for each in grade.dropped} == set(files)
    assert len(grade.fail_to_pass.failed) == 6
    assert grade.pass_to_pass.all_passed


@pytest.mark.parametrize("files", HOME.values(), ids=HOME)
async def test_what_seems_to_be_installed_in_the_work_folder_is_not(attempt, broken, files) -> None:
    grade = await attempt({"sums/core.py": broken + "\n", **files})
    assert not grade.resolved
    assert len(grade.fail_to_pass.failed) == 6
    assert grade.pass_to_pass.all_passed
