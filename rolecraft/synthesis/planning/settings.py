"""What can be said about how a plan is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rolecraft.environments.software_engineering.instances import Runner
from rolecraft.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """Each is found by itself where it is not given. Raises `UsageError` for what cannot be."""

    tests: Path | None = None
    """A folder of tests that is copied into the source, for one that has none, such as a wheel."""
    also: tuple[str, ...] = ()
    """Of a git checkout, paths or patterns of what git ignores and the tests need. All else that it
    ignores stays out.
    """
    environment: Path | None = None
    """A venv with pytest and what the project needs. None: pip makes one."""
    runner: Runner | None = None
    test_command: tuple[str, ...] = ()
    report: str = ""
    """`runner`, `test_command` and `report` as `Project` has them."""
    pure: bool = False
    """Go on although there are parts to compile: the project works without."""
    most_failing: float = 0.2
    """The share of the clean tests that may fail."""
    test_seconds: float = 30.0
    suite_seconds: float = 900.0
    """What one test has, and what all of them have: wall time."""

    def __post_init__(self) -> None:
        if not 0 <= self.most_failing <= 1:
            raise UsageError(f"`PlanSettings(most_failing={self.most_failing!r})` is a share.")
        for name in ("test_seconds", "suite_seconds"):
            if not getattr(self, name) > 0:
                raise UsageError(f"`PlanSettings({name}={getattr(self, name)!r})` is more than 0.")
        if self.runner in ("junit", "ctest") and bool(self.test_command) != bool(self.report):
            given = "a test command" if self.test_command else "a report"
            raise UsageError(
                f"There is only {given}, and runner {self.runner!r} takes both: the command and "
                f"the file that it writes."
            )
