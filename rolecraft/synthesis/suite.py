"""What the tests of a project do while nothing is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rolecraft.sandboxes.test_reports import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of the clean code, run twice."""

    outcomes: Mapping[str, Outcome]
    """By the runner's own id, in its order. Only of tests that did the same both times."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What each took, the longer of the two times."""
    set_aside: Mapping[str, str] = field(default_factory=dict)
    """Tests that no task counts on, and why: flaky, failing, …"""
    seen_by: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    """By file of code and line (from 1): the tests that run it. Lines that run when a module is
    imported, and so for all of them, are not in here. Empty for runners without coverage. A line
    of a statement over several lines has the tests of all of them."""
    on_import: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By file of code, the lines that run when a module is imported: what they do (a constant, a
    default, a decorator) any test may notice."""
    wall_seconds: float = 0.0
    """What all of them took together, once."""

    @property
    def passing(self) -> list[str]:
        """The tests that a task can count on: those that passed, both times."""
        return [test for test, outcome in self.outcomes.items() if outcome == "passed"]

    def seeing(self, lines: Mapping[str, Iterable[int]]) -> list[str] | None:
        """The passing tests that run any of these lines, in their order. None where that is not
        known, so any test may: no coverage, or a line that runs on import.
        """
        if not self.seen_by:
            return None
        found: set[str] = set()
        for path, numbers in lines.items():
            imported = frozenset(self.on_import.get(path, ()))
            for number in numbers:
                if number in imported:
                    return None
                found.update(self.seen_by.get(path, {}).get(number, ()))
        return [test for test in self.passing if test in found]
