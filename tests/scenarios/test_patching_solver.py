"""The stand-in for tasks made by the hundred: some are described in the same words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rolecraft.environments.software_engineering import Instance, SoftwareTasks
from rolecraft.environments.software_engineering.examples.solvers import patching_solver
from rolecraft.scenarios.software_engineering import scenario

CODE = """def twice(number):
    return number * 2


def half(number):
    return number / 2
"""
TEST = """from sizes import half, twice

def test_twice():
    assert twice(3) == 6

def test_half():
    assert half(6) == 3
"""
BUG = """\
--- a/sizes.py
+++ b/sizes.py
@@ -1,3 +1,3 @@
 def twice(number):
-    return number * 2
+    return number * 3
"""
OTHER_BUG = """\
--- a/sizes.py
+++ b/sizes.py
@@ -5,2 +5,2 @@
 def half(number):
-    return number / 2
+    return number / 3
"""
BUG += " \n"


@pytest.fixture
def instances(tmp_path: Path, needs_program: Any) -> list[Instance]:
    needs_program("bwrap", package="bubblewrap")
    needs_program("git", package="git")
    source = tmp_path / "sizes-1.0"
    (source / "tests").mkdir(parents=True)
    (source / "sizes.py").write_text(CODE)
    (source / "tests" / "test_sizes.py").write_text(TEST)
    (source / "tests" / "test_other.py").write_text("def test_nothing():\n    pass\n")
    first = Instance(
        id="twice",
        problem="A number comes out wrong.",
        patch=BUG,
        polarity="bug",
        source=str(source),
        fail_to_pass=("tests/test_sizes.py::test_twice",),
        pass_to_pass=("tests/test_sizes.py::test_half",),
    )
    second = replace(
        first,
        id="half",
        patch=OTHER_BUG,
        fail_to_pass=("tests/test_sizes.py::test_half",),
        pass_to_pass=("tests/test_sizes.py::test_twice",),
    )
    third = replace(first, id="longer", problem="A number comes out wrong. It is 9, not 6.")
    return [first, second, third]


@pytest.mark.parametrize("number", range(3))
async def test_it_solves_each_of_several_issues_that_share_their_words(instances, number) -> None:
    mend = scenario(SoftwareTasks(instances), model=patching_solver(instances))
    episode = await mend.play(instances[number].task())
    signals = {signal.name: signal.value for signal in episode.trajectory.signals}
    assert signals["resolved"] == 1
    assert signals["files.touched"] == 1
