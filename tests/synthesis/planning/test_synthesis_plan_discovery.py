"""Code is told from tests, documentation and scripts; what no bug is planted in says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rolecraft.synthesis.planning.discovery import discover
from rolecraft.synthesis.planning.metadata import Metadata

Project = Callable[[dict[str, str]], Path]
SHAPES = Metadata(name="shapes")
CODE = "def f():\n    return 1\n"
TEST = "def test_f():\n    pass\n"


def test_a_package_beside_its_tests(project: Project) -> None:
    found = discover(
        project(
            {
                "shapes/__init__.py": "",
                "shapes/core.py": CODE,
                "shapes/conftest.py": "",
                "docs/conf.py": CODE,
                "examples/run.py": CODE,
                "setup.py": CODE,
                "release.py": CODE,
                "conftest.py": "",
                "tests/test_core.py": TEST,
                "tests/data/one.txt": "1",
            }
        ),
        SHAPES,
    )
    assert found.code == ("shapes/__init__.py", "shapes/core.py")
    assert found.tests == (
        *("conftest.py", "shapes/conftest.py", "tests/data/one.txt", "tests/test_core.py"),
    )
    assert (found.roots, found.python_path, found.entities) == (("tests",), (".",), 1)


def test_a_src_layout_and_tests_in_the_package(project: Project) -> None:
    found = discover(
        project(
            {
                "src/shapes/core.py": CODE,
                "src/shapes/tests/test_core.py": TEST,
                "src/shapes/test/support.py": CODE,
                "src/shapes/__init__.py": "",
                "src/shapes/test_near.py": TEST,
                "src/shapes/test_bench.py": CODE,
                "noxfile.py": CODE,
            }
        ),
        SHAPES,
    )
    # `test/support.py` has no test in it: it is code, as that of `django.test` is.
    assert found.code == (
        *("src/shapes/__init__.py", "src/shapes/core.py", "src/shapes/test/support.py"),
        "src/shapes/test_bench.py",
    )
    assert found.roots == ("src/shapes/tests", "src/shapes/test_near.py")
    assert found.python_path == ("src", ".")


def test_a_single_module_and_pytests_own_settings(project: Project) -> None:
    found = discover(
        project(
            {
                "shapes.py": CODE,
                "checks/check_shapes.py": TEST,
                "pytest.ini": "[pytest]\ntestpaths = checks\npython_files = check_*.py\n",
            }
        ),
        SHAPES,
    )
    assert found.code == ("shapes.py",)
    assert found.tests == ("checks/check_shapes.py",)
    assert found.roots == ()  # pytest reads its settings itself


def test_tests_that_pytest_would_not_find_by_their_names(project: Project) -> None:
    case = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n"
    found = discover(project({"shapes/__init__.py": CODE, "tests/shapes.py": case}), SHAPES)
    assert found.roots == ("tests", "tests/shapes.py")


def test_code_that_pytest_looks_at_for_doctests_is_code(project: Project) -> None:
    settings = "[pytest]\ntestpaths = src checks\naddopts = --doctest-modules\n"
    found = discover(
        project(
            {
                "src/shapes/__init__.py": CODE,
                "checks/__init__.py": "",
                "checks/test_core.py": TEST,
                "pytest.ini": settings,
            }
        ),
        SHAPES,
    )
    assert found.code == ("src/shapes/__init__.py",)
    assert found.tests == ("checks/__init__.py", "checks/test_core.py")
    assert found.roots == ()


def test_one_file_with_all_tests(project: Project) -> None:
    found = discover(project({"shapes/__init__.py": CODE, "test.py": TEST}), SHAPES)
    assert found.roots == found.tests == ("test.py",)
    assert found.code == ("shapes/__init__.py",)


def test_why_no_bug_is_planted_in_a_file(project: Project) -> None:
    folder = project(
        {
            "shapes/__init__.py": CODE,
            "shapes/made.py": "# This file is auto-generated: do not edit.\n" + CODE,
            "shapes/shapes_pb2.py": CODE,
            "shapes/old.py": "print 'two'\n",
            "shapes/_vendor/six.py": CODE,
            "shapes/says.py": '"""It can write files that say do not edit."""\n' + CODE,
            "tests/test_f.py": TEST,
        }
    )
    (folder / "shapes" / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nö = 1\n".encode("l1"))
    found = discover(folder, SHAPES)
    assert found.code == ("shapes/__init__.py", "shapes/says.py")
    reasons = {path: why.partition(":")[0] for path, why in found.skipped.items()}
    assert reasons == {
        "shapes/made.py": "generated",
        "shapes/shapes_pb2.py": "generated",
        "shapes/old.py": "Python refuses it",
        "shapes/_vendor/six.py": "vendored",
        "shapes/latin.py": "no UTF-8",
    }
