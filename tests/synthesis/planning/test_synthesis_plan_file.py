"""A plan reads back as it was written, and says which tests can notice a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite

A, B = "tests/test_a.py::test_a", "tests/test_a.py::test_b"
SUITE = Suite(
    outcomes={A: "passed", B: "passed", "tests/test_a.py::test_c": "skipped"},
    seconds={A: 0.5},
    set_aside={"tests/test_a.py::test_d": "flaky"},
    seen_by={"a.py": {3: (A,), 4: (A, B), 5: (A, B)}},
    on_import={"a.py": (1, 2)},
    wall_seconds=1.5,
)


def test_a_plan_reads_back_as_it_was_written(tmp_path: Path) -> None:
    folder = SynthesisFolder(tmp_path)
    project = Project(
        name="a",
        source=str(tmp_path / "source"),
        code=("a.py",),
        tests=("tests/test_a.py",),
        skipped={"b.py": "generated"},
    )
    plan = Plan(project, SUITE, {"seconds": 2.0})
    plan.save(folder)
    assert Plan.load(folder) == plan


def test_only_tests_that_run_a_changed_line_see_it() -> None:
    assert SUITE.seeing({"a.py": [3]}) == [A]
    assert SUITE.seeing({"a.py": [3, 4]}) == [A, B]
    assert SUITE.seeing({"a.py": [9]}) == []
    assert SUITE.seeing({"b.py": [1]}) == []


def test_any_test_may_see_a_line_that_runs_on_import() -> None:
    assert SUITE.seeing({"a.py": [3, 2]}) is None


def test_without_coverage_any_test_may_see_a_change() -> None:
    assert Suite(outcomes={A: "passed"}).seeing({"a.py": [3]}) is None


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = SynthesisFolder(tmp_path)
    folder.plan.write_text('{"version": 99}')
    with pytest.raises(UsageError, match="version 99"):
        Plan.load(folder)
