"""What a validation goes by."""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.errors import UsageError
from rolecraft.sandboxes import SandboxLimits
from rolecraft.synthesis.suite import Suite

MIB = 2**20
MOST_UNSTEADY = 0.05
"""The share of the clean tests that may fail before a bug is there: they measure time, maybe, on a
busy machine."""
UNSTEADY = "flaky: passed when planned"
"""How the reason begins for which such a test is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Raises `UsageError` for what cannot be."""

    cap: float = 0.2
    """The largest share of the passing tests that may fail with a bug, above 0 and up to 1. One
    test always may."""
    time_limit: float = 3.0
    """Seconds of processor time that a test may take beyond ten times what it takes when all is
    well. (For other runners than pytest: seconds beyond ten times the suite's.)"""
    memory_bytes: int = 1024 * MIB
    """What the tests of one run may use."""

    def __post_init__(self) -> None:
        if not 0 < self.cap <= 1:
            raise UsageError(f"`cap={self.cap!r}`: give a share of the tests above 0 and up to 1.")
        if not 0 < self.time_limit < float("inf"):
            raise UsageError(f"`time_limit={self.time_limit!r}`: give seconds above 0.")
        if self.memory_bytes < 64 * MIB:
            raise UsageError(f"`memory_bytes={self.memory_bytes!r}`: give 64 MiB or more.")

    def most(self, suite: Suite) -> int:
        """How many tests a bug may fail."""
        return max(1, int(self.cap * len(suite.passing)))

    @property
    def silence(self) -> float:
        """Seconds on the clock for which a run may say nothing, such as one that waits for what
        never comes."""
        return 10 * self.time_limit

    def limits(self, seconds: float) -> SandboxLimits:
        """Of a sandbox whose commands may take so long."""
        return SandboxLimits(
            seconds=seconds,
            cpu_seconds=max(1, int(seconds)),
            memory_bytes=self.memory_bytes + 512 * MIB,  # with the fork server and files in memory
            processes=256,
            file_bytes=256 * MIB,
            disk_bytes=1024 * MIB,
            output_bytes=64 * 1024,
        )
