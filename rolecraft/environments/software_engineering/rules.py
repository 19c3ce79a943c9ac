"""When an instance is resolved: the rules of SWE-bench 5.

- A test to mend passes if it PASSED or XFAILed. Missing, FAILED, ERROR and SKIPPED are no pass.
- A test to keep is kept if it PASSED, XFAILed or was SKIPPED.
- "full": all of both. "partial": some of the tests to mend, and all to keep. Else "no".
- An id with more `[` than `]` was cut off by whoever published it. It stands for the tests that
  begin with it, if these agree.
- A test that passes although it is marked to fail (XPASS) is none of these, so it is no pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal

from rolecraft.sandboxes.test_reports import Outcome

Verdict = Literal["full", "partial", "no"]
MENDED: frozenset[Outcome] = frozenset(("passed", "xfailed"))
KEPT: frozenset[Outcome] = frozenset(("passed", "xfailed", "skipped"))


@dataclass(frozen=True, slots=True)
class Tests:
    """One list of tests of an instance, in its two parts."""

    __test__ = False  # pytest takes what is called `Test...` for a test

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """Those that are missing, too."""

    @property
    def all_passed(self) -> bool:
        return not self.failed


def parted(tests: Iterable[str], outcomes: Mapping[str, Outcome], good: Set[Outcome]) -> Tests:
    """Part a list of tests into those whose outcome is good and all others."""
    passed: list[str] = []
    failed: list[str] = []
    for test in tests:
        (passed if outcome_of(test, outcomes) in good else failed).append(test)
    return Tests(tuple(passed), tuple(failed))


def outcome_of(test: str, outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """What became of a test; None if it is missing, or stands for tests that do not agree."""
    if test in outcomes:
        return outcomes[test]
    if test.count("[") > test.count("]"):
        found = {outcome for name, outcome in outcomes.items() if name.startswith(test)}
        return found.pop() if len(found) == 1 else None
    return None


def verdict_of(fail_to_pass: Tests, pass_to_pass: Tests) -> Verdict:
    """What the two lists come to. No test to mend is no success."""
    if not pass_to_pass.all_passed or not fail_to_pass.passed:
        return "no"
    return "full" if fail_to_pass.all_passed else "partial"
