"""An experiment: every variant on every task, n times, and a table of what came of it.

Runs are recorded below `folder/runs/VARIANT/TASK/rN.jsonl`, where `rolecraft annotate`, `report`
and `compare` read them. Invariant: a run that is over is never played again. One that was cut off
is gone on with, and no answer that is in its record is asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rolecraft.environments.task import Task
from rolecraft.errors import RolecraftError, UsageError
from rolecraft.experiments.cost import Unit, cost_of
from rolecraft.experiments.plan import Plan
from rolecraft.experiments.results import Results
from rolecraft.experiments.runs import Played, Run, judged, read, timed
from rolecraft.experiments.variant import Variant
from rolecraft.models.limits import Limits
from rolecraft.models.resolve import resolve_model
from rolecraft.rollouts.collect import Failed, collect
from rolecraft.scenarios.scenario import Episode
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.jsonl import load

if TYPE_CHECKING:
    from rolecraft.models.base import Model


class NotBegun(RolecraftError):
    """A run of an experiment that was not begun: what the experiment may cost is used up."""


async def experiment(
    *,
    variants: Sequence[Variant],
    tasks: Sequence[Task],
    folder: str | Path,
    repetitions: int = 1,
    model: Model | str | None = None,
    role_models: Mapping[str, Model | str] | None = None,
    seed: int = 0,
    concurrency: int = 8,
    limits: Limits | None = None,
    on_run: Callable[[Played], None] | None = None,
    before: Results | None = None,
    **options: Any,
) -> Results:
    """Play every variant on every task `repetitions` times, and compare; the first is the baseline.

    Results and runs are in `folder`; called again with the same arguments it goes on where it
    stopped. `limits` (`usd`, `tokens`, `calls`) are for all runs in the folder together: no
    further run begins where what is spent and what the runs under way will need, each as much as
    those before on average, reach one. Runs under way come to their end, so a limit can be passed
    by what they cost. `on_run` hears of each run that is played. `before` is what
    `so_far` has just found: journals that it has read are not read again. `options` go to the
    environments.

    A run that raises what is its team's own fault (`runs.FAULTS`) counts as not correct. Any other
    error leaves it unfinished: it is in `Results.errors`, in no row, and is gone on with next time.
    Raises `UsageError` for a folder with another experiment and for limits that cannot be kept.
    """
    by_hand = not isinstance(model, str)
    answers = None if model is None else resolve_model(model)
    try:
        name = "" if answers is None else answers.name
        if role_models:
            listed = (f"{role}={_name(spec)}" for role, spec in sorted(role_models.items()))
            name = " ".join([name, *listed]).strip()
        results = await play(
            Plan(variants, tasks, repetitions, seed, name, Path(folder)),
            concurrency=concurrency,
            limits=limits,
            on_run=on_run,
            known={each.run.journal: each for runs in before.played.values() for each in runs}
            if before is not None
            else None,
            model=answers,
            role_models=role_models,
            **options,
        )
    finally:
        if not by_hand and answers is not None:
            await answers.aclose()
    results.write()
    return results


async def play(
    plan: Plan,
    *,
    concurrency: int,
    limits: Limits | None = None,
    on_run: Callable[[Played], None] | None = None,
    known: Mapping[Path, Played] | None = None,
    **options: Any,
) -> Results:
    """Write the plan down and play those of its runs that are not over. See `experiment`.

    What is `known` of runs by their journals is not read again.
    """
    limits = limits or Limits()
    if limits.rounds is not None or limits.seconds is not None or limits.on_limit is not None:
        raise UsageError("The limits of an experiment are `usd`, `tokens` and `calls`.")
    if concurrency < 1:
        raise UsageError(f"`concurrency` wants a number from 1, got {concurrency!r}.")
    plan.write()
    playing = _Playing(plan, limits, concurrency, on_run, known or {})
    await playing.play(**options)
    errors = sorted(playing.errors, key=lambda each: each[0].journal)
    return Results(plan, playing.played, errors, playing.not_begun)


def so_far(
    *,
    variants: Sequence[Variant],
    tasks: Sequence[Task],
    folder: str | Path,
    repetitions: int = 1,
    model: str = "",
    seed: int = 0,
) -> Results:
    """What is known of an experiment, which is left as it is; also what it may yet cost."""
    plan = Plan(variants, tasks, repetitions, seed, model, Path(folder))
    played = {
        variant.name: [read(run, variant) for run in plan.runs(variant)] for variant in variants
    }
    return Results(plan, played)


class _Playing:
    """The runs of a plan while they are played."""

    def __init__(
        self,
        plan: Plan,
        limits: Limits,
        concurrency: int,
        on_run: Callable[[Played], None] | None,
        known: Mapping[Path, Played],
    ) -> None:
        self.plan, self.limits = plan, limits
        self.slots = asyncio.Semaphore(concurrency)
        self.on_run = on_run
        self.state = {
            run.journal: known.get(run.journal) or read(run, variant)
            for variant in plan.variants
            for run in plan.runs(variant)
        }
        self.under_way: dict[Path, float] = {}
        """The runs that were begun and are not over, and when that was."""
        self.errors: list[tuple[Run, BaseException]] = [
            (each.run, each.error) for each in self.state.values() if each.error is not None
        ]
        self.not_begun = 0

    @property
    def played(self) -> dict[str, list[Played]]:
        return {
            variant.name: [self.state[run.journal] for run in self.plan.runs(variant)]
            for variant in self.plan.variants
        }

    async def play(self, **options: Any) -> None:
        """Repetition by repetition and in each all variants, so that what there is can be compared
        whenever it stops."""
        open_runs: dict[tuple[int, str], list[Run]] = {}
        for variant in self.plan.variants:
            for run in self.plan.runs(variant):
                if self.state[run.journal].to_play:
                    open_runs.setdefault((run.repetition, variant.name), []).append(run)
        by_name = {variant.name: variant for variant in self.plan.variants}
        async with asyncio.TaskGroup() as group:
            for (_, name), runs in sorted(open_runs.items(), key=lambda item: item[0][0]):
                group.create_task(self._collect(by_name[name], runs, options))

    async def _collect(self, variant: Variant, runs: list[Run], options: dict[str, Any]) -> None:
        tasks = [run.as_task(self.plan.seed) for run in runs]
        # By the object: attempts at a task share its id, and two seeds may come to the same.
        by_task = {id(task): run for task, run in zip(tasks, runs, strict=True)}

        def journal(task: Task) -> Path:
            run = by_task[id(task)]
            self._admit(run)
            run.journal.parent.mkdir(parents=True, exist_ok=True)
            self.under_way[run.journal] = perf_counter()
            return run.journal

        def done(result: Episode | Failed) -> None:
            run = by_task[id(result.task)]
            began = self.under_way.pop(run.journal, None)
            seconds = None if began is None else perf_counter() - began
            if isinstance(result, Failed):
                self._failed(run, variant, result.error, seconds)
            else:
                played = judged(run, variant, result.trajectory, result.reward)
                if seconds is not None:
                    played = timed(played, result.trajectory, seconds)
                self.state[run.journal] = played
            if self.on_run is not None and not _not_begun(result):
                self.on_run(self.state[run.journal])

        await collect(
            variant.scenario,
            tasks,
            concurrency=self.slots,
            on_result=done,
            journal=journal,
            **options | dict(variant.options),
        )

    def _failed(self, run: Run, variant: Variant, error: Exception, seconds: float | None) -> None:
        if isinstance(error, NotBegun):
            self.not_begun += 1
            return
        played = read(run, variant, error)
        if not played.over:
            self.errors.append((run, error))
        elif seconds is not None:  # the team's own fault ended it
            played = timed(played, load(run.journal), seconds)
        self.state[run.journal] = played

    def _admit(self, run: Run) -> None:
        """Raise `NotBegun` if the limits leave no room for one more run."""
        if self.limits == Limits():
            return
        spent = Usage(calls=0, usd=0.0)
        over = [each for each in self.state.values() if each.over]
        for each in self.state.values():
            spent = spent + each.usage
        # At least those that were measured: the first runs of all begin without an average.
        ahead = len(self.under_way) / len(over) if over else 0.0
        limits: dict[Unit, float | None] = {
            "usd": self.limits.usd,
            "calls": self.limits.calls,
            "tokens": self.limits.tokens,
        }
        for name, allowed in limits.items():
            if allowed is None:
                continue
            if name == "usd" and any(each.usage.usd is None for each in over):
                raise UsageError(
                    f"A limit in US dollars cannot be kept: no price is known for "
                    f"{self.plan.model or 'a model'!r}. Limit `calls` or `tokens`."
                )
            used = cost_of(spent, name)
            average = sum(cost_of(each.usage, name) for each in over)
            if used + average * ahead >= allowed:
                raise NotBegun(f"The limit of {allowed:g} {name} leaves no room for this run.")


def _not_begun(result: Episode | Failed) -> bool:
    return isinstance(result, Failed) and isinstance(result.error, NotBegun)


def _name(model: Model | str) -> str:
    return model if isinstance(model, str) else model.name
