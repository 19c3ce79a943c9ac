"""Batch generation: the rows of a data set through a team, each finished sample kept at once.

    report = await run_batch("prompts.jsonl", team, BatchConfig(samples=4), folder="out")

Invariants: calling it again goes on where it was, and what is finished is neither run nor paid
again; a killed call repeats no more than what was under way; one item costs nothing but itself,
whatever it does. The pipeline of `rolecraft.rollouts` runs the items.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from rolecraft.environments.row_files import read_rows
from rolecraft.environments.team import Team
from rolecraft.errors import (
    MissingExtra,
    MissingKey,
    RealModelForbidden,
    UnknownName,
    UsageError,
)
from rolecraft.models.base import Model
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.folder import RunFolder
from rolecraft.rollouts.batch.items import Item, count_left, items_left
from rolecraft.rollouts.batch.ledger import PERMANENT, RETRYABLE, Entry, Repairs
from rolecraft.rollouts.batch.output import Output, write_json, write_output, written_before
from rolecraft.rollouts.batch.progress import BatchEvent
from rolecraft.rollouts.batch.samples import Sample
from rolecraft.rollouts.batch.stages import BatchStages, BudgetSpent, sample_of
from rolecraft.rollouts.batch.statistics import Statistics
from rolecraft.rollouts.batch.survey import COLUMNS, Survey, survey
from rolecraft.rollouts.endings import StageCancelled, StageTimeout, is_worth_another_try
from rolecraft.rollouts.events import in_short
from rolecraft.rollouts.pipeline import rollouts
from rolecraft.rollouts.result import Rollout
from rolecraft.rollouts.settings import PipelineSettings
from rolecraft.sandboxes.live import SandboxProvider, SandboxSpec
from rolecraft.scenarios.scenario import Scenario
from rolecraft.trajectories.events import Usage

T = TypeVar("T")
STATISTICS = "statistics.json"
NO_ITEM_CAN = (MissingKey, MissingExtra, RealModelForbidden)
"""What is wrong with the whole run, and not with an item: nothing is entered, and it comes out."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a call came to. `statistics` are those of the run, earlier calls included."""

    folder: Path
    statistics: Statistics
    output: Output
    total: int
    """Items of the data set: rows times samples."""
    ran: int = 0
    """Items that this call ran to an end."""
    left: int = 0
    """Items that are still to be run: those that failed and may be tried again, and those that the
    budget did not cover."""
    budget_spent: str = ""
    """Which limit of the run was reached; empty if none."""
    repairs: Repairs = field(default_factory=Repairs)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to run."""
        return not self.left


async def run_batch(
    dataset: str | Path,
    target: Team | Scenario | BatchStages,
    config: BatchConfig | None = None,
    *,
    folder: str | Path,
    model: Model | str | None = None,
    role_models: Mapping[str, Model | str] | None = None,
    split: str | None = None,
    provider: SandboxProvider | None = None,
    sandbox: SandboxSpec | None = None,
    on_event: Callable[[BatchEvent], None] | None = None,
    new: bool = False,
    allow_mixed: bool = False,
    retry_failed: bool = False,
) -> BatchReport:
    """Run what is left of a data set, and write the training output.

    `dataset` is a file or folder, see `read_rows`; `split` one of a folder's. `model` and
    `role_models` default to those that `config` names. `provider` makes a sandbox for each item of
    a team, of the row's specification over `sandbox`; a scenario has its own. `new` puts
    a run that is in the folder away; `allow_mixed` goes on with one of other settings or of another
    data set. `retry_failed` also runs what failed for good.

    Raises `UsageError` for what cannot be run, `JournalError` if another process writes the folder
    or the disk refuses, and what shows that no item can succeed (`MissingKey`). What was finished
    is kept then.
    """
    config = config or BatchConfig()
    stages = as_stages(target, config, model, role_models, provider)
    if sandbox is not None and not stages.in_sandboxes:
        raise _own_sandboxes("sandbox")
    if config.toolsets is not None:
        config.toolsets.check(stages.tools)
    numbers = Statistics(config, stages.tools)
    with ExitStack() as stack:

        def look() -> tuple[Survey, RunFolder, int]:
            rows = read_rows(dataset, split=split, max_row_bytes=config.max_row_bytes)
            surveyed = survey(rows, config.volatile)
            _check_prompt(dataset, config.prompt, surveyed)
            opened = RunFolder(folder, config, new=new, mixed=allow_mixed, on_entry=numbers.add)
            run = stack.enter_context(opened)
            run.check_dataset(surveyed, mixed=allow_mixed)
            left = count_left(surveyed, run.ledger, config, retry_failed=retry_failed)
            return surveyed, run, left

        surveyed, run, left = await _in_thread_to_its_end(look)
        batch = _Batch(run, config, stages, numbers, on_event, len(surveyed) * config.samples)
        batch.left = left
        batch.tell("begins")
        if batch.left:
            rows = read_rows(dataset, split=split, max_row_bytes=config.max_row_bytes)
            await batch.play(
                items_left(
                    rows,
                    surveyed,
                    run.ledger,
                    config,
                    sandbox=sandbox,
                    in_sandboxes=stages.in_sandboxes,
                    retry_failed=retry_failed,
                    discard=batch.enter,
                )
            )
        return await batch.finish(surveyed, all_rows=allow_mixed)


def _check_prompt(dataset: str | Path, column: str, surveyed: Survey) -> None:
    """Raise `UnknownName` for a column of prompts that certainly no row has."""
    there = surveyed.columns
    if column and there and column not in there and len(there) < COLUMNS:
        raise UnknownName(f"Column of `{dataset}`", column, there)


def as_stages(
    target: Team | Scenario | BatchStages,
    config: BatchConfig,
    model: Model | str | None = None,
    role_models: Mapping[str, Model | str] | None = None,
    provider: SandboxProvider | None = None,
) -> BatchStages:
    """How a target plays items. Raises `UsageError` for one that cannot."""
    if provider is not None and not isinstance(target, Team):
        raise _own_sandboxes("provider")
    if isinstance(target, BatchStages):
        return target
    model = model if model is not None else config.model or None
    by_role: Mapping[str, Model | str] = config.role_models if role_models is None else role_models
    if isinstance(target, Scenario):
        from rolecraft.rollouts.batch.task_stages import TaskStages

        return TaskStages(target, config, model=model, role_models=by_role)
    from rolecraft.rollouts.batch.team_stages import TeamStages

    return TeamStages(target, config, model=model, role_models=by_role, provider=provider)


def _own_sandboxes(argument: str) -> UsageError:
    return UsageError(
        f"`run_batch({argument}=...)` is for a team. What it is given here says itself where its "
        f"items are played: a scenario by its environment, stages by what they were made with."
    )


async def _in_thread_to_its_end(work: Callable[[], T]) -> T:
    """What `work` returns or raises. Who is cancelled waits until it is over: the files of the run
    that it reads and writes are closed next."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            try:
                await asyncio.wait({working})
            except asyncio.CancelledError:
                continue  # cancelled once more: it is raised below all the same
        raise


class _Batch:
    """One call."""

    def __init__(
        self,
        run: RunFolder,
        config: BatchConfig,
        stages: BatchStages,
        numbers: Statistics,
        on_event: Callable[[BatchEvent], None] | None,
        total: int,
    ) -> None:
        self._run, self._config, self._stages = run, config, stages
        self._numbers, self._on_event, self._total = numbers, on_event, total
        self.left = 0
        self._ran = 0
        self._budget_spent = ""
        stages.note = self._attempt
        # What earlier calls cost counts.
        stages.budget.count(
            Usage(numbers.prompt_tokens, numbers.completion_tokens, numbers.usd, numbers.calls)
        )

    async def play(self, items: AsyncGenerator[Item, None]) -> None:
        """Run the items. Raises what ends the run."""
        config = self._config
        settings = PipelineSettings(
            live=config.concurrency,
            prepare_seconds=config.seconds,
            run_seconds=config.seconds,
            attempts=config.attempts,
            backoff_seconds=config.first_wait,
            tool_workers=config.tool_workers,
        )
        going = rollouts(self._stages, self._until_spent(items), settings)
        async with aclosing(going) as pipeline:
            async for rollout in pipeline:
                self._done(rollout)

    async def finish(self, surveyed: Survey, *, all_rows: bool) -> BatchReport:
        """Write the output and the numbers, unless they are there."""
        output = await _in_thread_to_its_end(lambda: self._write(surveyed, all_rows))
        self.tell("written", samples=output.samples)
        self.tell("ends", error=self._budget_spent)
        return BatchReport(
            self._run.path,
            self._numbers,
            output,
            self._total,
            self._ran,
            self.left,
            self._budget_spent,
            self._run.ledger.repairs,
        )

    def _write(self, surveyed: Survey, all_rows: bool) -> Output:
        tools = self._stages.tools
        state = self._state(surveyed, all_rows)
        output = written_before(self._run.path / STATISTICS, self._config, state)
        if output is None:
            output = write_output(
                self._run, surveyed, self._config, known_tools=tools, all_rows=all_rows
            )
            record = {
                **self._numbers.to_dict(),
                "training_samples": output.samples,
                "training_rows": output.rows,
                "left_aside": dict(output.aside),
                "samples_of_rows_gone": output.gone,
                "written_for": state,
            }
            write_json(self._run.path / STATISTICS, record)
        return output

    def _state(self, surveyed: Survey, all_rows: bool) -> dict[str, Any]:
        """What the output depends on."""
        config = self._config
        return {
            "ledger": self._run.ledger.size,
            "rows": surveyed.fingerprint,
            "all_rows": all_rows,
            "samples": config.samples,
            "formats": list(config.formats),
            "keep_without_reasoning": config.keep_without_reasoning,
            "keep_invented_tools": config.keep_invented_tools,
            "tools": list(self._stages.tools),
        }

    async def _until_spent(self, items: AsyncGenerator[Item, None]) -> AsyncGenerator[Item, None]:
        async with aclosing(items):
            async for item in items:
                if self._budget_spent:
                    return
                yield item

    # --- what becomes of items ------------------------------------------------------------------

    def _done(self, rollout: Rollout[Item, Sample]) -> None:
        item, error = rollout.item, rollout.error
        if isinstance(error, NO_ITEM_CAN):
            raise error
        if isinstance(error, BudgetSpent):
            if not self._budget_spent:
                self._budget_spent = str(error)
                self.tell("budget", error=self._budget_spent)
            return
        if rollout.episode is not None:
            sample, attempts = rollout.episode, max(1, rollout.attempts - item.noted)
            if attempts != sample.entry.attempts:
                sample = replace(sample, entry=sample.entry.but(attempts=attempts))
            self._finish(sample)
        else:
            self._failed(item, rollout)

    def _failed(self, item: Item, rollout: Rollout[Item, Sample]) -> None:
        error, text = rollout.error, in_short(rollout.error)
        timeouts = self._run.ledger.timeouts(item.id)
        again = error is not None and (
            # Seen here, an item was cancelled from inside, and not with the whole call.
            isinstance(error, (StageTimeout, StageCancelled))
            or rollout.ended == "environment"
            or is_worth_another_try(error, "run")
        )
        if isinstance(error, StageTimeout) and error.stage != "prepare":
            timeouts += 1  # each was paid for
            if timeouts >= self._config.attempts:
                again, text = False, f"{text} That was its timeout number {timeouts}."
        if again or rollout.trajectory is None or not rollout.trajectory.usage.calls:
            status = RETRYABLE if again else PERMANENT
            attempts = rollout.attempts - item.noted
            entry = item.entry(status, ended=rollout.ended, error=text, attempts=attempts)
            self.enter(entry.but(timeouts=timeouts))
            return
        # What was paid for is kept, aside. What it cost stands in the ledger as an attempt.
        sample = sample_of(
            item, rollout.trajectory, rollout.ended, self._config, status=PERMANENT, error=text
        )
        spent = dict.fromkeys(("calls", "unpriced", "prompt_tokens", "completion_tokens"), 0)
        free = sample.entry.but(**spent, usd=None, attempts=0, timeouts=timeouts)
        self._finish(replace(sample, entry=free))

    def _finish(self, sample: Sample) -> None:
        self._entered(self._run.finish(sample))

    def enter(self, entry: Entry) -> None:
        """Enter what became of an item."""
        self._run.ledger.append(entry)
        self._entered(entry)

    def _entered(self, entry: Entry) -> None:
        self._ran += 1
        self.left -= entry.status != RETRYABLE
        self.tell("item", entry)

    def _attempt(self, entry: Entry) -> None:
        self._run.ledger.append(entry)
        self.tell("attempt", entry)

    def tell(self, what: Any, entry: Entry | None = None, **more: Any) -> None:
        """Tell whoever listens."""
        if self._on_event is None:
            return
        if entry is not None:
            more |= {
                "item": entry.item.name,
                "number": entry.number,
                "status": entry.status,
                "ended": entry.ended,
                "error": entry.error,
            }
        numbers = self._numbers
        self._on_event(
            BatchEvent(
                what=what,
                done=self._total - self.left,
                total=self._total,
                calls=numbers.calls,
                tokens=numbers.tokens,
                usd=numbers.usd,
                unpriced=None if numbers.usd is None else numbers.unpriced or None,
                **more,
            )
        )
