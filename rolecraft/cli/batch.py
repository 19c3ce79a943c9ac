"""`rolecraft batch`: the rows of a data set through a team, and what was said as training data."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models, stand_ins
from rolecraft.cli._options import BaseUrl, Debug, Json, Model, RoleModel, Seed
from rolecraft.cli._output import Output
from rolecraft.cli._target import load_target
from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rolecraft.environments import Team
    from rolecraft.rollouts.batch import BatchConfig
    from rolecraft.rollouts.batch.progress import BatchEvent
    from rolecraft.rollouts.batch.runner import BatchReport
    from rolecraft.scenarios import Scenario


class Format(StrEnum):
    """What `--format` may say."""

    SHAREGPT = "sharegpt"
    OPENAI = "openai"
    PARQUET = "parquet"


def batch(
    dataset: Annotated[
        Path,
        typer.Argument(
            metavar="DATASET",
            help="JSONL, Parquet or JSON file, or a folder: a saved Hugging Face data set, or one "
            "with such files.",
        ),
    ],
    team: Annotated[
        str,
        typer.Option("--team", metavar="FILE.py:NAME", help="A team, role or scenario to run."),
    ],
    model: Model = None,
    role_model: RoleModel = None,
    base_url: BaseUrl = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="Folder for all.")
    ] = Path("batch"),
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="Items under way at the same time.")
    ] = 32,
    samples: Annotated[
        int, typer.Option("--samples", "-n", min=1, help="So many samples of each row.")
    ] = 1,
    seed: Seed = 0,
    prompt: Annotated[
        str,
        typer.Option(
            "--prompt", metavar="COLUMN", help="The column of the prompt; else the usual names."
        ),
    ] = "",
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="The split of a folder.")
    ] = None,
    toolsets: Annotated[
        Path | None,
        typer.Option(
            "--toolsets",
            metavar="FILE",
            dir_okay=False,
            help="TOML or JSON with named toolsets and distributions: each row draws its tools.",
        ),
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option("--distribution", metavar="NAME", help="Which one of --toolsets."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="End a sample after so many rounds.")
    ] = None,
    calls: Annotated[
        int | None, typer.Option("--calls", min=0, help="End a sample before more model calls.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.001, help="The deadline of one attempt at an item.")
    ] = 600.0,
    attempts: Annotated[
        int,
        typer.Option("--tries", min=1, help="Try an item so often, if its failure may pass."),
    ] = 3,
    usd: Annotated[
        float | None,
        typer.Option("--usd", min=0.0, help="Stop before the whole run costs more US dollars."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=0, help="Stop before the whole run takes more tokens."),
    ] = None,
    formats: Annotated[
        list[Format] | None,
        typer.Option("--format", help="Write this; can be given several times."),
    ] = None,
    keep_without_reasoning: Annotated[
        bool,
        typer.Option("--keep-without-reasoning", help="Also use samples without any reasoning."),
    ] = False,
    keep_invented_tools: Annotated[
        bool,
        typer.Option(
            "--keep-invented-tools", help="Also use samples that call tools which do not exist."
        ),
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run again what failed for good, too.")
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Put the run in the folder away, and begin another.")
    ] = False,
    allow_mixed: Annotated[
        bool,
        typer.Option("--allow-mixed", help="Go on with a run of other settings or another data."),
    ] = False,
    fsync: Annotated[
        bool, typer.Option("--fsync", help="What is finished survives a power cut.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a team on every row of a data set; the same command goes on where it was."""
    from rolecraft.rollouts.batch import BatchConfig, load_distribution
    from rolecraft.rollouts.batch.config import default_formats

    _hold_descriptors()
    with Output(json=json, makes=True) as output:
        if distribution is not None and toolsets is None:
            raise CommandLineError("`--distribution` names one of a file: give `--toolsets FILE`.")
        try:
            drawn = None if toolsets is None else load_distribution(toolsets, distribution)
        except UsageError as error:
            raise CommandLineError(str(error)) from error
        file, _, name = team.rpartition(":")
        config = BatchConfig(
            team=f"{os.path.normpath(file)}:{name}",
            model=model or "",
            role_models=_by_role(role_model),
            seed=seed,
            prompt=prompt,
            toolsets=drawn,
            rounds=rounds,
            calls=calls,
            samples=samples,
            concurrency=concurrency,
            attempts=attempts,
            seconds=seconds,
            usd=usd,
            tokens=tokens,
            keep_without_reasoning=keep_without_reasoning,
            keep_invented_tools=keep_invented_tools,
            formats=tuple(form.value for form in formats) if formats else default_formats(),
            fsync=fsync,
        )
        if not formats and Format.PARQUET not in config.formats:
            output.note(
                "No Parquet file is written: for one, install pyarrow (`pip install pyarrow`)."
            )
        if split is not None and dataset.is_file():
            output.warn(
                f"`--split {split}` chooses among the splits of a folder; `{dataset}` is one file, "
                f"and all its rows are taken."
            )
        target = load_target(team)
        models = Models(model, role_model, base_url=base_url)
        _give(models, target, output)
        options = {
            "split": split,
            "new": new,
            "allow_mixed": allow_mixed,
            "retry_failed": retry_failed,
        }
        try:
            report = asyncio.run(_run(dataset, target, config, out, models, output, options))
        except UsageError as error:
            raise CommandLineError(str(error)) from error
        except KeyboardInterrupt:
            output.note(f"What is finished is in `{out}`. {_go_on()}")
            raise
        _show(report, output)
        failed = report.statistics.statuses["failed:permanent"]
        if failed or not report.complete:
            raise typer.Exit(ExitCode.INCOMPLETE)


def _hold_descriptors() -> None:
    """Open what of stdin, stdout and stderr was closed, on nothing.

    Else the next file that is opened, the ledger perhaps, would be stdout to programs and to C.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _by_role(pairs: list[str] | None) -> dict[str, str]:
    return {name: spec for name, _, spec in (pair.partition("=") for pair in pairs or ())}


def _give(models: Models, target: Team | Scenario, output: Output) -> None:
    """Give a team its models; check names and keys."""
    from rolecraft.environments import Team

    if not isinstance(target, Team):
        models.check_roles(role.name for role in target.team())
        models.check_keys()
        return
    models.give_to(target)
    models.check_keys(target)
    if names := stand_ins(target):
        output.note(f"Answered by {', '.join(names)}: no language model.")


async def _run(
    dataset: Path,
    target: Team | Scenario,
    config: BatchConfig,
    out: Path,
    models: Models,
    output: Output,
    options: dict[str, Any],
) -> BatchReport:
    from rolecraft.environments import Team
    from rolecraft.rollouts.batch.runner import as_stages, run_batch

    if isinstance(target, Team):  # it has its models
        stages = as_stages(target, config.but(model="", role_models={}))
    else:
        stages = as_stages(target, config, models.everyone, models.per_role)
    try:
        with ExitStack() as stack:
            return await run_batch(
                dataset, stages, config, folder=out, on_event=_listener(output, stack), **options
            )
    finally:
        await models.aclose()


def _listener(output: Output, stack: ExitStack) -> Callable[[BatchEvent], None]:
    """Writes events as JSON lines, and draws a bar of them."""
    step: Callable[[str], None] = lambda state: None  # noqa: E731

    def hear(event: BatchEvent) -> None:
        nonlocal step
        output.result(event.to_dict())
        if event.what == "begins":
            left = event.total - event.done
            if event.done:
                output.note(f"{event.done} of {event.total} items are over already.")
            if left:
                step = stack.enter_context(output.bar("items", left))
        elif event.what == "item":
            spent = "" if event.usd is None else f", {'≥ ' * bool(event.unpriced)}${event.usd:.2f}"
            said = f"{event.status}: {event.error}" if event.error else event.status
            step(said[:60] + spent)
        elif event.what == "budget":
            output.warn(event.error)

    return hear


def _show(report: BatchReport, output: Output) -> None:
    numbers = report.statistics
    record = {name: value for name, value in numbers.to_dict().items() if name != "tools"}
    output.result(
        {
            "what": "report",
            **record,
            "training_samples": report.output.samples,
            "training_rows": report.output.rows,
            "left_aside": dict(report.output.aside),
            "left": report.left,
            "folder": str(report.folder),
        }
    )
    repairs = report.repairs
    if repairs:
        output.warn(
            f"The run had been cut off: {repairs.torn} bytes of an unfinished line were taken off, "
            f"{repairs.found_again} finished samples entered, {len(repairs.broken)} broken lines "
            f"passed over."
        )
    statuses = sorted((name, count) for name, count in numbers.statuses.items() if count)
    output.table("Items", ["status", "items"], statuses, numeric=1)
    if numbers.tools:
        rows = [(t.tool, t.count, t.success, t.error) for t in numbers.tools]
        output.table("Tools", ["tool", "calls", "success", "error"], rows, numeric=1)
    if numbers.coverage is not None:
        output.say(
            f"{numbers.reasoned} of {numbers.turns} answers have reasoning "
            f"({100 * numbers.coverage:.1f}%)."
        )
    least = "at least " if numbers.unpriced else ""
    spent = "price unknown" if numbers.usd is None else f"{least}${numbers.usd:.4f}"
    output.say(f"{numbers.calls} model calls, {numbers.tokens} tokens, {spent}.")
    made = report.output
    lines = "" if made.rows == made.samples else f", {made.rows} conversations of roles (lines),"
    output.say(f"{made.samples} samples for training{lines} in `{report.folder}`:")
    for path in report.output.files:
        output.say(f"  {path.name}")
    if made.removed:
        names = ", ".join(f"`{path.name}`" for path in made.removed)
        output.note(
            f"Removed, as an earlier call wrote it and `--format` names it no more: {names}."
        )
    if report.output.gone:
        output.note(f"{report.output.gone} samples are of rows that the data set has no more.")
    if not report.complete:
        output.say(f"{report.left} items are left. {_go_on()}")


def _go_on() -> str:
    return f"Go on: {shlex.join(['rolecraft', *sys.argv[1:]])}"
