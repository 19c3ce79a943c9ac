"""What validation found out about a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

Status = Literal[
    "valid",
    "no_test_fails",
    "too_many_fail",  # more than the cap, a share of the suite
    "no_test_passes",  # nothing would be left to keep
    "flaky",  # two runs of the same did not agree
    "timeout",  # a run did not end in its time
    "memory",
    "crashed",  # a signal, or an exit of its own, ended the interpreter
    "does_not_load",  # its tests could not even be collected
    "does_not_apply",  # a given patch does not fit the clean files
]
"""Why a candidate is a task or none; all but the first are ends of candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one candidate. A line of the ledger `verdicts.jsonl`."""

    candidate: str
    """Its id."""
    status: Status
    why: str = ""
    """In words, for people."""
    fail_to_pass: tuple[str, ...] = ()
    """The passing tests of the clean suite that fail with it, both times."""
    lost: tuple[str, ...] = ()
    """Passing tests that neither pass nor fail with it: skipped, not there (parameters). No task
    counts on them."""
    messages: Mapping[str, str] = field(default_factory=dict)
    """What the runner says of some of `fail_to_pass`, with tracebacks; at most five of them."""
    seconds: float = 0.0
    """What validating it took, on the wall."""
    processor_seconds: float = 0.0
    """What its tests took of processors, which is the same on a busy machine; 0 if nobody looked.
    """

    @property
    def is_valid(self) -> bool:
        return self.status == "valid"

    def without(self, unsteady: Mapping[str, str]) -> Self:
        """What it is where these tests are not counted, for these reasons."""
        failing = tuple(test for test in self.fail_to_pass if test not in unsteady)
        if self.is_valid and not failing:
            gone = self.fail_to_pass[0]
            return replace(
                self, status="flaky", why=f"{gone}: {unsteady[gone]}", fail_to_pass=(), messages={}
            )
        said = {test: text for test, text in self.messages.items() if test not in unsteady}
        return replace(self, fail_to_pass=failing, messages=said)

    def pass_to_pass(self, passing: Sequence[str]) -> list[str]:
        """The tests to keep, of the `passing` ones of the clean suite."""
        gone = {*self.fail_to_pass, *self.lost}
        return [test for test in passing if test not in gone]
