"""A task as a row: the columns of SWE-bench, and what is known of how the task was made.

A row's `base_commit` has the bug and lacks the files of the tests to mend; `patch` mends the bug
and `test_patch` brings these files back, as in SWE-bench.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rolecraft.environments.software_engineering.patches import Change
from rolecraft.environments.software_engineering.taken import test_file
from rolecraft.environments.software_engineering.unified import diff
from rolecraft.environments.task import Split
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One task. The first columns are those of SWE-bench, in its types."""

    instance_id: str
    """The candidate's id."""
    repo: str
    base_commit: str
    patch: str
    """The fix."""
    test_patch: str
    problem_statement: str
    hints_text: str
    created_at: str
    version: str
    FAIL_TO_PASS: str
    PASS_TO_PASS: str
    """Lists of tests, as JSON."""
    environment_setup_commit: str
    split: Split
    modifier: str
    entity: str
    files: list[str]
    """The files of code that the fix changes."""
    n_fail_to_pass: int
    n_pass_to_pass: int
    n_lines: int
    """Lines of the fix: a line that is changed counts once."""
    n_files: int
    attempts: int
    """Attempts of solvers that were recorded, without those of the built-in ones."""
    pass_rate: float | None
    """The share of them that solved it; None without any."""
    usd: float | None
    """What models took for bug and text, in US dollars; None if none was asked or the price is
    unknown."""

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TaskTests:
    """The tests of a task."""

    fail_to_pass: tuple[str, ...]
    left_out: frozenset[str]
    """Tests of the suite that are not kept: those to mend, and those that are lost with the bug."""
    hidden: tuple[str, ...]
    """Their files that the agent does not get."""
    emptied: bool
    """What the agent gets in their place is an empty file, so that a build that names them can
    still be configured; else it gets nothing."""

    @classmethod
    def of(cls, plan: Plan, verdict: Verdict) -> TaskTests:
        fail_to_pass = tuple(plan.project.outside_code(verdict.fail_to_pass))
        return cls(
            fail_to_pass,
            frozenset((*verdict.fail_to_pass, *verdict.lost)),
            hidden_files(plan, fail_to_pass),
            plan.project.runner != "pytest",
        )

    def pass_to_pass(self, plan: Plan) -> tuple[str, ...]:
        """The tests to keep, which are most of the suite: of many tasks, too much to hold."""
        kept = [test for test in plan.suite.passing if test not in self.left_out]
        return tuple(plan.project.outside_code(kept))


def hidden_files(plan: Plan, fail_to_pass: Sequence[str]) -> tuple[str, ...]:
    """The files of the tests to mend; all files of tests where a test's name says none. Empty if
    one of them is not in the source.
    """
    found = set(plan.project.tests)
    if plan.project.runner == "pytest" and all(map(test_file, fail_to_pass)):
        found = {test_file(test) for test in fail_to_pass}
    source = Path(plan.project.source)
    return tuple(sorted(found)) if all((source / path).is_file() for path in found) else ()


def patch_of_hidden_files(
    source: Path, place: Path, *, emptied: bool
) -> Callable[[Sequence[str]], str]:
    """Makes the patch that brings hidden files of the source back; each file is read once.

    `place` is an empty folder to work in. With `emptied` the files are there without content,
    else they are not there.
    """
    known: dict[str, str] = {}

    def patch(paths: Sequence[str]) -> str:
        for path in paths:
            if path not in known:
                executable = bool((source / path).stat().st_mode & 0o100)
                if emptied:
                    (place / path).parent.mkdir(parents=True, exist_ok=True)
                    (place / path).touch(0o755 if executable else 0o644)
                change = Change(path, "file", (source / path).read_bytes(), executable)
                known[path] = diff(place, [change])
        return "".join(known[path] for path in paths)

    return patch


def as_json(tests: Sequence[str]) -> str:
    return json.dumps([*tests], ensure_ascii=False)
