"""A plan of a small project: its clean suite, what is set aside, which tests see which lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rolecraft.environments.software_engineering.grading import Grader
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.synthesis.plan import Plan

Planned = Callable[..., Awaitable[Plan]]

CODE = """\
SIDES = 4


def area(side):
    if side < 0:
        raise ValueError(side)
    return side * side


def around(side, times=SIDES):
    return times * side


def table():
    return [area(side) for side in range(3)]


def unused():
    return SIDES
"""
TESTS = """\
import socket
import unittest

import pytest

from shapes import area, around, table


def test_area():
    assert area(2) == 4


def test_around():
    assert around(2) == 8


def test_negative():
    with pytest.raises(ValueError):
        area(-1)


@pytest.fixture(scope="module")
def shared():
    return table()


def test_first(shared):
    assert shared[0] == 0


def test_second(shared):
    assert shared[2] == 4


class TestSides(unittest.TestCase):
    def test_sides(self):
        for side in range(3):
            with self.subTest(side=side):
                self.assertEqual(around(side), side * 4)


@pytest.mark.skip(reason="later")
def test_later():
    assert area(3) == 10


def test_of_hashes():
    assert hash("a") % 2 == 0 or hash("b") % 2 == 0 or hash("c") % 2 == 0


@pytest.mark.parametrize("name", sorted({"a", "b", "c", "d"}, key=hash)[:2])
def test_of_an_order(name):
    assert name


def test_network():
    socket.create_connection(("example.org", 443), timeout=5)


def test_that_writes():
    with open("written.txt", "w") as file:
        file.write("x")
    with open("README", "a") as file:
        file.write("x")
    assert area(1) == 1
"""
FILES = {
    "pyproject.toml": '[project]\nname = "shapes"\nversion = "1.0"\n',
    "README": "Shapes.\n",
    "shapes.py": CODE,
    "tests/test_shapes.py": TESTS,
    "tests/test_missing.py": "import is_not_there\n\n\ndef test_it():\n    pass\n",
}
AT = "tests/test_shapes.py::"


async def test_the_plan_of_a_project(planned: Planned) -> None:
    plan = await planned(FILES, most_failing=0.5)
    suite, project = plan.suite, plan.project

    passing = {name.removeprefix(AT) for name in suite.passing}
    assert passing >= {
        *("test_area", "test_around", "test_negative", "test_first", "test_second"),
        *("TestSides::test_sides", "test_that_writes"),
    }
    assert suite.outcomes[AT + "test_later"] == "skipped"
    assert suite.wall_seconds > 0
    assert suite.seconds.keys() == suite.outcomes.keys()

    # What did not do the same twice (each run has its own order of hashes), and what failed twice.
    flaky = [name for name, why in suite.set_aside.items() if why.startswith("flaky: ")]
    assert any(name.startswith(AT + "test_of_an_order[") for name in flaky)
    assert suite.set_aside[AT + "test_network"].startswith("fails: ")
    assert suite.set_aside["tests/test_missing.py"].startswith("cannot be collected: ")
    assert "is_not_there" in suite.set_aside["tests/test_missing.py"]
    assert project.test_command == ("--ignore=tests/test_missing.py",)
    assert not suite.set_aside.keys() & suite.outcomes.keys()

    # A module that makes its table once: lines that run on import, and lines of tests.
    def seeing(*lines: int) -> set[str] | None:
        found = suite.seeing({"shapes.py": lines})
        return None if found is None else {name.removeprefix(AT) for name in found}

    assert seeing(1) is None
    assert seeing(10) is None
    assert seeing(6) == {"test_negative"}
    assert seeing(11) == {"test_around", "TestSides::test_sides"}
    assert seeing(19) == set()
    # A fixture of the module ran in one test; the other one has its result.
    assert seeing(15) == {"test_first", "test_second"}
    assert {"test_area", "test_first", "test_second"} <= (seeing(7) or set())

    assert plan.about["written"] == ["README", "written.txt"]
    assert "write into the repository (`README`, `written.txt`)" in plan.about["warnings"][0]
    assert (project.name, project.version, project.code) == ("shapes", "1.0", ("shapes.py",))


async def test_grading_runs_the_planned_tests_as_the_plan_did(planned: Planned) -> None:
    files = {name: FILES[name] for name in ("pyproject.toml", "README", "shapes.py")}
    files["tests/test_shapes.py"] = TESTS.partition("@pytest.mark.skip")[0]
    plan = await planned(files)
    old, new = "    return side * side\n", "    return side + side + 1\n"
    hunk = f"@@ -5,4 +5,4 @@\n     if side < 0:\n         raise ValueError(side)\n-{old}+{new} \n"
    instance = Instance(
        id="shapes-1",
        problem="Areas are wrong.",
        fail_to_pass=tuple(plan.suite.seeing({"shapes.py": [7]}) or ()),
        pass_to_pass=tuple(plan.suite.passing),
        patch=f"--- a/shapes.py\n+++ b/shapes.py\n{hunk}",
        polarity="bug",
        hidden=plan.project.tests,
        source=plan.project.source,
        environment=plan.project.environment,
        python_path=plan.project.python_path,
        test_command=plan.project.test_command,
    )
    grade = await Grader().grade_reference(instance)
    assert grade.resolved, (grade.problem, grade.why, grade.output)
    assert len(grade.pass_to_pass.passed) == len(plan.suite.passing) - len(instance.fail_to_pass)


async def test_a_src_layout_with_its_tests_in_the_package(planned: Planned) -> None:
    plan = await planned(
        {
            "src/shapes/__init__.py": "def area(side):\n    return side * side\n",
            "src/shapes/tests/__init__.py": "",
            "src/shapes/tests/test_area.py": "from shapes import area\n\n\n"
            "def test_area():\n    assert area(2) == 4\n",
            "setup.cfg": "[metadata]\nname = shapes\nversion = 2.0\n",
        }
    )
    assert plan.project.python_path == ("src", ".")
    assert plan.suite.passing == ["src/shapes/tests/test_area.py::test_area"]
    assert plan.suite.seeing({"src/shapes/__init__.py": [2]}) == plan.suite.passing
