"""A small package with one bug, and what is needed to grade patches of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.environments.software_engineering.grading import Grade, Grader
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.environments.software_engineering.patches import Change

CORE = '''"""Sums and means."""


def total(numbers):
    result = 0
    for number in numbers:
        result += number
    return result


def mean(numbers):
    return total(numbers) / (len(numbers) + 1)
'''
MENDED = CORE.replace("(len(numbers) + 1)", "len(numbers)")
TESTS = """import unittest

import pytest

from sums import mean, total


def test_total():
    assert total([1, 2, 3]) == 6


def test_mean():
    assert mean([1, 2, 3]) == 2


@pytest.mark.parametrize("numbers", [[4], [4, 4], [3, 5]])
def test_mean_of_four(numbers):
    assert mean(numbers) == 4


class TestMean:
    def test_of_one(self):
        assert mean([7]) == 7


class OldTests(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([]), 0)

    def test_mean(self):
        self.assertEqual(mean([1, 3]), 2)
"""
FILES = {
    "sums/__init__.py": "from sums.core import mean, total\n",
    "sums/core.py": CORE,
    "tests/conftest.py": "",
    "tests/test_core.py": TESTS,
    "pyproject.toml": '[project]\nname = "sums"\n\n[tool.pytest.ini_options]\naddopts = "-ra"\n',
    "README.md": "Sums.\n",
}
REFERENCE = """\
--- a/sums/core.py
+++ b/sums/core.py
@@ -11,2 +11,2 @@
 def mean(numbers):
-    return total(numbers) / (len(numbers) + 1)
+    return total(numbers) / len(numbers)
"""
FAIL_TO_PASS = (
    "tests/test_core.py::test_mean",
    "tests/test_core.py::test_mean_of_four[numbers0]",
    "tests/test_core.py::test_mean_of_four[numbers1]",
    "tests/test_core.py::test_mean_of_four[numbers2]",
    "tests/test_core.py::TestMean::test_of_one",
    "tests/test_core.py::OldTests::test_mean",
)
PASS_TO_PASS = ("tests/test_core.py::test_total", "tests/test_core.py::OldTests::test_total")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "sums-1.0"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def instance(repository: Path, bare_environment: Path) -> Instance:
    return Instance(
        id="sums-1",
        problem="The mean of numbers is too small.",
        fail_to_pass=FAIL_TO_PASS,
        pass_to_pass=PASS_TO_PASS,
        patch=REFERENCE,
        hidden=("tests",),
        source=str(repository),
        environment=str(bare_environment),
    )


@pytest.fixture(scope="session")
def bases() -> Bases:
    return Bases()


@pytest.fixture
def grader(bases: Bases) -> Grader:
    """In bubblewrap, as by default."""
    return Grader(bases=bases)


Attempt = Callable[..., Awaitable[Grade]]


@pytest.fixture
def attempt(grader: Grader, instance: Instance) -> Attempt:
    """Grade a patch that writes these files; a path with None is deleted."""

    async def run(files: dict[str, str | bytes | None]) -> Grade:
        changes = [
            Change(path, "gone")
            if content is None
            else Change(path, "file", content if isinstance(content, bytes) else content.encode())
            for path, content in files.items()
        ]
        grade = await grader.grade(instance, changes)
        assert not grade.infrastructure, grade.infrastructure
        return grade

    return run


@pytest.fixture
def mended() -> str:
    """`sums/core.py` without its bug."""
    return MENDED


@pytest.fixture
def broken() -> str:
    """`sums/core.py` with its bug."""
    return CORE
