"""What came of running tests with a candidate's change, whatever runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rolecraft.errors import RolecraftError
from rolecraft.sandboxes.test_reports import Outcome

End = Literal[
    "finished",  # the runner came to its end, and says so
    "stopped",  # we ended it, for more tests have failed than may
    "timeout",
    "memory",
    "crashed",
    "does_not_load",
]
"""How a run ended."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of tests."""

    end: End
    why: str = ""
    """In words, unless it is finished."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    processor_seconds: float = 0.0
    """What it took of a processor; 0 if nobody has looked."""


class WorkerLost(RolecraftError):
    """What runs the tests is gone, and nobody meant it to. `memory`: the sandbox had too little."""

    def __init__(self, reason: str, *, memory: bool = False) -> None:
        self.reason, self.memory = reason, memory
        super().__init__(f"A sandbox for tests was lost: {reason}")


class Worker(Protocol):
    """Runs tests with a change, again and again; one run at a time."""

    async def run(
        self,
        texts: Mapping[str, str],
        tests: Sequence[str] | None = None,
        *,
        again: bool = False,
        most: int,
    ) -> Ran:
        """Run these tests (all, unless given) with these files in place of the clean ones.

        It may stop when more than `most` of the passing tests have failed. `again` is for the
        second run of a candidate: conditions that should not matter are others then, as far as
        that is cheap. Raises `WorkerLost`.
        """
        ...

    async def ready(self) -> Mapping[str, str]:
        """Begin what it needs. Tests that pass by the plan and did not here, with no bug, and why.

        Raises `UsageError` for clean tests that are not those of the plan, and `SandboxError`.
        """
        ...

    async def close(self) -> None:
        """Free what it has. A second time it does nothing."""
        ...
