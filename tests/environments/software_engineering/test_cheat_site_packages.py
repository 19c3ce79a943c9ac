"""Cheat: change what is installed, or put something in front of it.

The environment is read-only, in the agent's sandbox and while grading; modules that would be
imported in place of those that are there are dropped.
"""

from __future__ import annotations

import pytest

from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.sandboxes import Bubblewrap, SandboxSpec

pytestmark = pytest.mark.slow

FAKE = "import os\nos._exit(0)\n"
SHADOWS = [
    *("pytest.py", "pytest/__init__.py", "_pytest/__init__.py", "pluggy/__init__.py"),
    *("json.py", "unittest/__init__.py", "decimal.py", "pytest.cpython-311-x86_64-linux-gnu.so"),
]


@pytest.mark.parametrize("path", SHADOWS)
async def test_a_module_in_front_of_the_runners_is_dropped(attempt, broken, path) -> None:
    grade = await attempt({path: FAKE, "sums/core.py": broken + "# mended\n"})
    assert [each.path for each in grade.dropped] == [path]
    assert grade.problem is None
    assert len(grade.fail_to_pass.failed) == 6


async def test_modules_of_the_package_itself_may_have_such_names(attempt, mended) -> None:
    files = {"sums/json.py": "NAME = 'mine'\n", "sums/core.py": mended + "from sums import json\n"}
    grade = await attempt(files)
    assert grade.resolved
    assert not grade.dropped


async def test_installed_packages_cannot_be_written_while_grading(attempt, broken) -> None:
    code = (
        "import pytest, os\n"
        "try: open(pytest.__file__, 'a').write('#')\n"
        "except OSError: pass\n"
        "else: mean = lambda numbers: sum(numbers) / len(numbers)\n"
    )
    grade = await attempt({"sums/core.py": broken + code})
    assert len(grade.fail_to_pass.failed) == 6, "it could be written"


async def test_installed_packages_cannot_be_written_by_the_agent(
    instance, bare_environment
) -> None:
    before = (bare_environment / "pytest" / "__init__.py").read_bytes()
    spec = SandboxSpec(readable=Runtime.of(instance).readable)
    async with await Bubblewrap().create(spec) as sandbox:
        done = await sandbox.run(["sh", "-c", f"echo x >> {bare_environment}/pytest/__init__.py"])
    assert not done.ok
    assert (bare_environment / "pytest" / "__init__.py").read_bytes() == before
