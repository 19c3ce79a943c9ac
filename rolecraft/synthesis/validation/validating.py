"""Many candidates at once, each with its verdict in the ledger.

    async for verdict in validate(plan, candidates, verdicts, workers=2):
        ...

Verdicts are appended in the order of the candidates, whichever worker is faster, so what is in the
ledger is always the beginning of what will be there in the end: after a kill -9, the same call goes
on behind it. In memory there are the plan and the few candidates under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)

from rolecraft.errors import UsageError
from rolecraft.sandboxes import SandboxProvider, default_provider
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.validation.fresh import FreshReport
from rolecraft.synthesis.validation.judging import judge
from rolecraft.synthesis.validation.places import Place
from rolecraft.synthesis.validation.ran import Worker, WorkerLost
from rolecraft.synthesis.validation.settings import MOST_UNSTEADY, UNSTEADY, Settings
from rolecraft.synthesis.validation.warm import WarmPytest
from rolecraft.synthesis.verdicts import Status, Verdict

ATTEMPTS = 2
"""How often a candidate with which a worker was lost is tried."""
ROUNDS = 4
"""So often the clean tests are run until all of them pass."""
AHEAD = 16
"""So many candidates for each worker are under way or wait for one before them."""


async def validate(
    plan: Plan,
    candidates: Iterable[Candidate],
    verdicts: Ledger[Verdict],
    *,
    settings: Settings | None = None,
    workers: int | None = None,
    provider: SandboxProvider | None = None,
    stop_after: int | None = None,
    on_unsteady: Callable[[Plan, Mapping[str, str]], None] = lambda plan, tests: None,
) -> AsyncGenerator[Verdict, None]:
    """Give each candidate that has no verdict yet one; they come in the order of the candidates.

    `workers` are as many as there are processors, unless given. With `stop_after` it ends when
    that many candidates are valid, those of calls before included. To end it early, close it
    (`contextlib.aclosing`). Tests that pass by the plan and fail in a worker without a bug, as long
    as they are few, are set aside: `on_unsteady` is told them, and why, and what the plan is then;
    keep it, for it is the one that the verdicts go by. Raises `UsageError` if the clean tests do
    not do what the plan says, `SandboxError` if there is no sandbox and `JournalError` if the disk
    refuses.
    """
    settings = settings or Settings()
    workers = workers or len(os.sched_getaffinity(0))
    if not plan.project.outside_code(plan.suite.passing):
        raise UsageError(f"No test of {plan.project.name!r} passes, so none can tell of a bug.")
    valid = sum(verdict.is_valid for verdict in verdicts)
    if stop_after is not None and valid >= stop_after:
        return
    place, chosen = await Place.of(plan), provider or default_provider()
    kind = WarmPytest if plan.project.runner == "pytest" else FreshReport
    made: list[Worker] = []
    read = plan.reader()

    def workers_of(plan: Plan) -> list[Worker]:
        return [kind(plan, settings, chosen, place) for _ in range(workers)]

    async def begin() -> None:
        """Until the clean tests of all workers pass, as far as that takes no more than `ROUNDS`."""
        nonlocal plan
        made[:] = workers_of(plan)
        for _ in range(ROUNDS):
            ready = (worker.ready() for worker in made)
            unsteady: dict[str, str] = {}
            for found in await asyncio.gather(*ready, return_exceptions=True):
                if isinstance(found, BaseException):
                    raise found
                unsteady |= found
            if not unsteady:
                return
            plan = set_aside(plan, unsteady)
            on_unsteady(plan, unsteady)
            await _close(made)
            made[:] = workers_of(plan)

    async def verdict_of(candidate: Candidate, worker: Worker) -> Verdict:
        lost = WorkerLost("")
        for _ in range(ATTEMPTS):
            try:
                most = settings.most(plan.suite)
                return await judge(candidate, worker, plan, read, most=most)
            except WorkerLost as error:  # it begins anew when it is used again
                lost = error
        status: Status = "memory" if lost.memory else "crashed"
        return Verdict(candidate=candidate.id, status=status, why=lost.reason)

    left: Iterator[Candidate] = (each for each in candidates if each.id not in verdicts)
    try:
        first = next(left, None)
        if first is None:
            return
        await begin()  # before the first verdict, so that all of them go by the same tests
        valid = sum(verdict.is_valid for verdict in verdicts)
        left = itertools.chain([first], left)
        async with contextlib.aclosing(_in_order(left, made, verdict_of)) as found:
            async for verdict in found:
                verdicts.append(verdict)
                yield verdict
                valid += verdict.is_valid
                if valid == stop_after:
                    return
    finally:
        await _close(made)


async def _close(workers: Sequence[Worker]) -> None:
    """All of them, also where one cannot be closed."""
    async with contextlib.AsyncExitStack() as closing:
        for worker in reversed(workers):
            closing.push_async_callback(worker.close)


def set_aside(plan: Plan, unsteady: Mapping[str, str]) -> Plan:
    """The plan without these tests. Raises `UsageError` where they are no longer a few."""
    found = plan.without(unsteady)
    aside = [test for test, why in found.suite.set_aside.items() if why.startswith(UNSTEADY)]
    if len(aside) > MOST_UNSTEADY * (len(aside) + len(found.suite.passing)):
        raise UsageError(
            f"{len(aside)} tests of {plan.project.name!r} passed when the plan was made and fail "
            f"now and then without a bug, more than {MOST_UNSTEADY:.0%}: {aside[0]}, … On a "
            f"machine with less to do, or with fewer `--workers`, they may pass."
        )
    return found


async def _in_order(
    candidates: Iterator[Candidate],
    workers: Sequence[Worker],
    verdict_of: Callable[[Candidate, Worker], Awaitable[Verdict]],
) -> AsyncGenerator[Verdict, None]:
    """The verdicts on candidates, in their order."""
    idle: asyncio.Queue[Worker] = asyncio.Queue()
    for worker in workers:
        idle.put_nowait(worker)

    async def one(candidate: Candidate) -> Verdict:
        worker = await idle.get()  # who asks first gets the next one
        try:
            return await verdict_of(candidate, worker)
        finally:
            idle.put_nowait(worker)

    under_way: deque[asyncio.Task[Verdict]] = deque()
    try:
        while True:
            while len(under_way) < AHEAD * len(workers):
                candidate = next(candidates, None)
                if candidate is None:
                    break
                under_way.append(asyncio.create_task(one(candidate)))
            if not under_way:
                return
            verdict = await under_way[0]
            under_way.popleft()
            yield verdict
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
