"""How hard tasks are for a solver: it plays each of them a few times.

    measured = await measure(folder, solver="gpt-4o-mini", model="openai/gpt-4o-mini", attempts=4)

Each attempt is a line of `pass_rates.jsonl` once it is over, and is not played again. One that a
machine or a model failed is no attempt; the next call goes on where its journal ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from rolecraft.environments.software_engineering import SoftwareTasks
from rolecraft.environments.task import Task
from rolecraft.errors import TraceError, UsageError
from rolecraft.models.base import Model
from rolecraft.rollouts import PipelineEvent, PipelineSettings, Rollout, ScenarioStages, rollouts
from rolecraft.rollouts.attempts import as_attempt
from rolecraft.scenarios.scenario import Episode, Scenario
from rolecraft.scenarios.software_engineering import scenario
from rolecraft.synthesis.difficulty.attempts import (
    Attempt,
    attempt_of,
    digest_of,
    is_stand_in,
    open_attempts,
)
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.tasks import gathered_tasks
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.jsonl import load
from rolecraft.trajectories.trajectory import Trajectory


@dataclass(slots=True)
class Measured:
    """What came of it."""

    solver: str
    attempts: int = 0
    """That are over, those of earlier calls too."""
    resolved: int = 0
    played: int = 0
    """Of this call."""
    failed: list[str] = field(default_factory=list)
    """Why attempts were not over: a sentence for each."""
    not_begun: int = 0
    """Attempts that the limit of US dollars kept from beginning."""
    usd: float = 0.0
    """What this call took, as far as prices are known."""


async def measure(
    folder: SynthesisFolder,
    *,
    solver: str,
    model: Model | str,
    attempts: int = 4,
    tasks: Sequence[str] | None = None,
    scene: Scenario | None = None,
    live: int = 4,
    seed: int = 0,
    usd: float | None = None,
    on_event: Callable[[PipelineEvent], None] | None = None,
) -> Measured:
    """Have `model` play each gathered task, or those with the ids `tasks`, `attempts` times.

    `solver` is what it is called in the ledger. `scene` says who plays, a `CodeAct` role unless
    given. `live` sandboxes there are at once. With `usd` no attempt begins once so much is spent.
    Raises `UsageError` where there are no tasks, or none of an id; `JournalError` while another
    process writes the ledger.
    """
    source = gathered_tasks(folder)
    wanted = _wanted(source, tasks)
    found = Measured(solver)
    numbers: dict[tuple[str, int], int] = {}
    """Of each attempt that is under way, by its task's id and seed."""

    def to_play() -> Iterator[Task]:
        for number in range(1, attempts + 1):
            for name in wanted:
                attempt = Attempt(task=name, solver=solver, number=number, resolved=False)
                if attempt.key in ledger:
                    continue
                if usd is not None and found.usd >= usd:
                    found.not_begun += 1
                    continue
                task = as_attempt(source.instances[name].task(), number, seed)
                numbers[task.id, task.seed] = number
                yield task

    stages = ScenarioStages(
        scene or scenario(source, name=solver),
        model=model,
        journal=lambda task: _journal(folder, solver, task.id, numbers[task.id, task.seed]),
    )
    async with AsyncExitStack() as stack:
        ledger = stack.enter_context(open_attempts(folder))
        settings = PipelineSettings(live=live, intake=live)
        running = rollouts(stages, to_play(), settings, on_event=on_event)
        async for rollout in await stack.enter_async_context(aclosing(running)):
            number = numbers.pop((rollout.item.id, rollout.item.seed))
            journal = _journal(folder, solver, rollout.item.id, number)
            found.played += 1
            played = _recorded(rollout, journal)
            found.usd += 0.0 if played is None else played.usage.usd or 0.0
            if (attempt := _attempt(rollout, played, solver, number, journal)) is None:
                found.failed.append(f"{rollout.item.id}: {rollout.ended}, {rollout.error}")
                continue
            ledger.append(attempt)
        for each in ledger:
            if each.solver == solver and each.task in source.instances:
                found.attempts += 1
                found.resolved += each.resolved
    return found


def _recorded(rollout: Rollout[Task, Episode], journal: Path) -> Trajectory | None:
    """What was played, also of an attempt that came to no end: it has cost something, too."""
    if rollout.trajectory is not None:
        return rollout.trajectory
    with suppress(TraceError):  # there is none
        return load(journal)
    return None


def _attempt(
    rollout: Rollout[Task, Episode],
    played: Trajectory | None,
    solver: str,
    number: int,
    journal: Path,
) -> Attempt | None:
    """None for one that says nothing about the solver."""
    if not rollout.says_something:
        return None
    if rollout.episode is not None and played is not None:
        return attempt_of(played, rollout.item.id, solver, number, record=digest_of(journal))
    usage = Usage(calls=0) if played is None else played.usage
    return Attempt(  # the solver's own doing, so it has not solved it
        task=rollout.item.id,
        solver=solver,
        number=number,
        resolved=False,
        turns=usage.calls,
        usd=usage.usd,
        record=digest_of(journal),
        stand_in=played is not None and is_stand_in(played),
    )


def _wanted(source: SoftwareTasks, tasks: Sequence[str] | None) -> list[str]:
    if unknown := [each for each in tasks or () if each not in source.instances]:
        raise UsageError(f"There is no gathered task {unknown[0]!r}.")
    return [*source.instances] if tasks is None else list(dict.fromkeys(tasks))


def _journal(folder: SynthesisFolder, solver: str, task: str, number: int) -> Path:
    """Where an attempt is recorded; its folder is made."""
    path = folder.attempts / _name(solver) / _name(task) / f"r{number}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _name(text: str) -> str:
    """A text as a part of a path; two texts never have the same."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.")[:100] or "solver"
    return name if name == text else f"{name}-{crc32(text.encode('utf-8', 'replace')):08x}"
