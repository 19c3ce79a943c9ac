"""The verdict on one candidate, by at most three runs of tests.

The first run has the tests that can see the change, and ends once too many fail, so most of what
is no task costs little. What is left gets a second run, of the whole suite. A test counts as one to
mend if it failed both times; what only the second run has seen fail is run once more. Tests that
do not run the changed lines are run with the bug once: they passed when the suite was run twice
without it, each worker has seen them pass twice more, and the change is none of what they run, so
a second run would say nothing new. (`rolecraft synth check` grades what is kept again and again.)

Without the bug nothing is run here: the reverse of the change gives the clean files, byte for byte,
and what these do is in the plan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from rolecraft.errors import RolecraftError
from rolecraft.sandboxes.test_reports import Outcome
from rolecraft.synthesis.candidates import Candidate, Read
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.validation.ran import Ran, Worker
from rolecraft.synthesis.verdicts import Status, Verdict

MESSAGES = 5
"""So many failures are kept in words."""


async def judge(
    candidate: Candidate, worker: Worker, plan: Plan, read: Read, *, most: int
) -> Verdict:
    """Find out about a candidate; `most` tests may fail. Raises `WorkerLost`."""
    began = time.monotonic()
    try:
        texts, lines = candidate.texts(read), candidate.lines(read)
    except RolecraftError as error:
        return Verdict(candidate=candidate.id, status="does_not_apply", why=str(error))
    seeing = plan.suite.seeing(lines)
    tests = plan.project.outside_code(plan.suite.passing)
    if seeing is not None:
        known = set(tests)
        seeing = [test for test in seeing if test in known]
    counting = _Counting(worker)
    found = await _judged(candidate.id, texts, tests, seeing, counting, most)
    return replace(
        found,
        seconds=round(time.monotonic() - began, 3),
        processor_seconds=round(counting.seconds, 3),
    )


class _Counting:
    """A worker that counts what its runs take."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.seconds = 0.0

    async def run(
        self,
        texts: Mapping[str, str],
        tests: Sequence[str] | None = None,
        *,
        again: bool = False,
        most: int,
    ) -> Ran:
        ran = await self._worker.run(texts, tests, again=again, most=most)
        self.seconds += ran.processor_seconds
        return ran


async def _judged(
    name: str,
    texts: Mapping[str, str],
    passing: list[str],
    seeing: list[str] | None,
    worker: _Counting,
    most: int,
) -> Verdict:
    def end(status: Status, why: str = "") -> Verdict:
        return Verdict(candidate=name, status=status, why=why)

    if seeing == []:
        return end("no_test_fails", "no test runs the changed lines")
    asked = passing if seeing is None else seeing
    first = await worker.run(texts, seeing, most=most)
    if first.end != "finished":
        return end(_STATUS[first.end], _why(first, most))
    if not _failed(asked, first):
        return end("no_test_fails", f"the {len(asked)} tests that may notice it pass or are gone")
    second = await worker.run(texts, None, again=True, most=most)
    if second.end != "finished":
        return end(_STATUS[second.end], _why(second, most))
    now = {test: _became(test, second) for test in passing}
    first_time = {test: _became(test, first) for test in asked}
    late = [test for test in _failed(passing, second) if test not in first_time]
    if late:
        third = await worker.run(texts, late, most=most)
        if third.end not in ("finished", "stopped"):
            return end(_STATUS[third.end], _why(third, most))
        first_time |= {test: _became(test, third) for test in late}
    for test, before in first_time.items():
        if now[test] != before:
            return end("flaky", f"{test}: {before} in one run, {now[test]} in another")
    failed = _failed(passing, second)
    if len(failed) > most:
        return end("too_many_fail", f"{len(failed)} tests fail, {most} may")
    if "passed" not in now.values():
        return end("no_test_passes", "no test is left that passes")
    return Verdict(
        candidate=name,
        status="valid",
        fail_to_pass=tuple(failed),
        lost=tuple(test for test in passing if now[test] == "lost"),
        messages={
            test: second.messages[test]
            for test in [each for each in failed if each in second.messages][:MESSAGES]
        },
    )


_STATUS: Mapping[str, Status] = {
    "stopped": "too_many_fail",
    "timeout": "timeout",
    "memory": "memory",
    "crashed": "crashed",
    "does_not_load": "does_not_load",
}
_BECAME: Mapping[Outcome, Literal["passed", "failed"]] = {
    "passed": "passed",
    "failed": "failed",
    "error": "failed",
}


def _became(test: str, ran: Ran) -> Literal["passed", "failed", "lost"]:
    """What became of a test that passes when all is well. Skipped, or not there: it is lost."""
    outcome = ran.outcomes.get(test)
    return "lost" if outcome is None else _BECAME.get(outcome, "lost")


def _failed(tests: Iterable[str], ran: Ran) -> list[str]:
    return [test for test in tests if _became(test, ran) == "failed"]


def _why(ran: Ran, most: int) -> str:
    return f"more than {most} tests fail" if ran.end == "stopped" else ran.why
