"""What the guard does must not cost an honest fix its result."""

from __future__ import annotations

import dataclasses

import pytest

INCREMENTAL = """import pytest
def pytest_runtest_makereport(item, call):
    if "incremental" in item.keywords and call.excinfo is not None:
        item.parent._previousfailed = item
def pytest_runtest_setup(item):
    if "incremental" in item.keywords:
        if getattr(item.parent, "_previousfailed", None) is not None:
            pytest.xfail("previous test failed")
"""


async def test_an_incremental_class_of_tests_is_graded(
    grader, bases, repository, instance, attempt, mended
) -> None:
    """pytest's own recipe: after a failure the rest of the class is expected to fail. The copies
    that fail are in a class of their own, so that they are no such failure.
    """
    (repository / "tests/conftest.py").write_text(INCREMENTAL)
    (repository / "tests/test_core.py").write_text(
        "import pytest\nfrom sums import mean, total\n\n"
        "@pytest.mark.incremental\nclass TestAll:\n"
        "    def test_a(self):\n        assert total([1]) == 1\n"
        "    def test_b(self):\n        assert mean([1, 2, 3]) == 2\n"
    )
    test = "tests/test_core.py::TestAll::test_"
    instance = dataclasses.replace(
        instance, id="incremental", fail_to_pass=(f"{test}b",), pass_to_pass=(f"{test}a",)
    )
    grade = await grader.grade_reference(instance)
    assert grade.resolved, (grade.why, grade.output)


async def test_tests_that_count_a_fixture_are_graded(attempt, repository, mended) -> None:
    """Copies run after all tests, so a fixture that counts has not seen them."""
    path = repository / "tests/test_core.py"
    counted = (
        "COUNT = []\n\n@pytest.fixture(autouse=True)\ndef counted():\n    COUNT.append(1)\n\n\n"
    )
    text = path.read_text().replace("def test_total", counted + "def test_total", 1)
    text = text.replace(
        "    assert mean([1, 2, 3]) == 2",
        "    assert len(COUNT) == 2\n    assert mean([1, 2, 3]) == 2",
    )
    path.write_text(text)
    grade = await attempt({"sums/core.py": mended})
    assert grade.resolved, (grade.why, grade.output)


async def test_a_fix_may_edit_a_plugin_module_of_the_base(attempt, repository, mended) -> None:
    hook = "def pytest_runtest_setup(item):\n    pass\n"
    (repository / "tests/conftest.py").write_text('pytest_plugins = ["sums.plugin"]\n')
    (repository / "sums/plugin.py").write_text(hook)
    grade = await attempt({"sums/core.py": mended, "sums/plugin.py": hook + "# mended\n"})
    assert grade.resolved, (grade.why, grade.output)


async def test_a_fix_may_not_edit_a_hook_that_makes_results(attempt, repository, mended) -> None:
    hook = "def pytest_runtest_makereport(item, call):\n    pass\n"
    (repository / "tests/conftest.py").write_text('pytest_plugins = ["sums.plugin"]\n')
    (repository / "sums/plugin.py").write_text(hook)
    grade = await attempt({"sums/core.py": mended, "sums/plugin.py": hook + "# more\n"})
    assert grade.problem == "tampered"


async def test_what_the_tests_themselves_skip_and_expect_counts(
    attempt, repository, mended
) -> None:
    """By their marks, or because the base without the patch does it, too."""
    path = repository / "tests/test_core.py"
    text = path.read_text().replace(
        "    assert total([1, 2, 3]) == 6", '    pytest.skip("not here")'
    )
    text = text.replace(
        "    def test_total(self):", '    @unittest.skip("old")\n    def test_total(self):'
    )
    path.write_text(
        text.replace("def test_mean():", "@pytest.mark.xfail\ndef test_mean():").replace(
            "mean([1, 2, 3]) == 2", "mean([1, 2, 3]) == 5"
        )
    )
    grade = await attempt({"sums/core.py": mended})
    assert grade.resolved, (grade.fail_to_pass, grade.pass_to_pass, grade.output)
    assert set(grade.report.outcomes.values()) == {"passed", "skipped", "xfailed"}


@pytest.mark.parametrize(
    "skips",
    [
        '@unittest.skip("old")\nclass TestOld(unittest.TestCase):\n',
        "class TestOld(unittest.TestCase):\n"
        '    def setUp(self):\n        self.skipTest("not here")\n\n',
        "@unittest.expectedFailure\nclass TestOld(unittest.TestCase):\n",
        "class TestOld:\n"
        "    @pytest.fixture(autouse=True)\n"
        '    def needs(self):\n        pytest.skip("not here")\n\n',
    ],
    ids=["class", "setUp", "expected failure", "fixture"],
)
async def test_what_skips_a_test_skips_its_copy_too(attempt, repository, mended, skips) -> None:
    """As of titlecase 2.4, whose reference counted as a forgery whenever such a test was copied."""
    path = repository / "tests/test_core.py"
    old = "    def test_{0}(self):\n        assert {0} == 9\n"
    tests = "".join(old.format(number) for number in range(2))
    path.write_text(f"import unittest\n{path.read_text()}\n\n{skips}{tests}")
    grade = await attempt({"sums/core.py": mended})
    assert grade.resolved, (grade.why, grade.output)
