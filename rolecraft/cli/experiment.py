"""`rolecraft experiment`: the paper's two interventions, with a model and tasks of your choice."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._broke_off import tell_what_is_open
from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models
from rolecraft.cli._options import (
    Debug,
    Json,
    Model,
    Out,
    RoleModel,
    RunsAtOnce,
    RunsCalls,
    RunsUsd,
    Seed,
)
from rolecraft.cli._output import Output, usage_record

if TYPE_CHECKING:
    from rolecraft.environments import Task
    from rolecraft.experiments import Played, Results, Variant
    from rolecraft.failure_taxonomy.labels import Labels

OWN_PROBLEMS = 32
"""So many of our own word problems are drawn where nobody says how many."""


class Team(StrEnum):
    MATHS_CHAT = "maths-chat"
    SOFTWARE_COMPANY = "software-company"


def experiment(
    team: Annotated[Team, typer.Argument(metavar="TEAM", help="maths-chat or software-company.")],
    model: Model = None,
    role_model: RoleModel = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="SOURCE",
            help="Of maths-chat GSM-Plus, of software-company HumanEval: a file as published "
            "(JSON, JSONL, parquet), or a name on the Hugging Face hub. Without it, tasks of our "
            "own: word problems, and 32 programs.",
        ),
    ] = None,
    items: Annotated[
        int | None,
        typer.Option("--items", min=1, help="Draw so many of the tasks, by --seed."),
    ] = None,
    repetitions: Annotated[
        int, typer.Option("--repetitions", "-n", min=1, help="Play each task so often.")
    ] = 1,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="NAME",
            help="Compare only this with the baseline: prompt or topology. Can be given twice.",
        ),
    ] = None,
    out: Out = Path("experiment"),
    seed: Seed = 0,
    concurrency: RunsAtOnce = 8,
    usd: RunsUsd = None,
    calls: RunsCalls = None,
    annotate: Annotated[
        bool,
        typer.Option("--annotate", help="Let the detectors count failures, before and after."),
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            dir_okay=False,
            help="Take failures from labels that `rolecraft annotate DIR/runs --out FILE` wrote.",
        ),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Say what it would cost, and play nothing.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare a team with an improved prompt and a new topology; the same command goes on."""
    from rolecraft.experiments import so_far
    from rolecraft.experiments.variants import chosen

    with Output(json=json, makes=True) as output:
        variants = chosen(_variants(team, tasks), variant or [])
        drawn = _tasks(team, tasks, items, seed, output)
        before = so_far(
            variants=variants, tasks=drawn, folder=out, repetitions=repetitions, seed=seed
        )
        _say_estimate(before, output)
        if estimate:
            left = before.estimate
            output.result(
                {
                    "runs": left.runs,
                    "calls_at_least": left.calls,
                    "expected": None if left.expected is None else usage_record(left.expected),
                }
            )
            return
        if model is None and not role_model:
            raise CommandLineError("Say which model plays: `--model MODEL`.")
        models = Models(model, role_model)
        models.check_roles(role.name for each in variants for role in each.scenario.team())
        models.check_keys()
        given = None if labels is None else _labels(labels)
        results = asyncio.run(
            _play(
                variants,
                drawn,
                models,
                output,
                folder=out,
                repetitions=repetitions,
                seed=seed,
                concurrency=concurrency,
                before=before,
                usd=usd,
                calls=calls,
                annotate=annotate,
                labels=given,
            )
        )
        output.result(results.to_dict() | {"folder": str(out)})
        _show(results, output, debug=debug)
        if not results.complete:
            raise typer.Exit(ExitCode.INCOMPLETE)


def _variants(team: Team, tasks: str | None) -> list[Variant]:
    from rolecraft.experiments import HumanEvalEnvironment, maths_chat, software_company_variants

    if team is Team.MATHS_CHAT:
        return maths_chat()
    if tasks is None:
        return software_company_variants()
    return software_company_variants(environment=HumanEvalEnvironment)


def _tasks(
    team: Team, source: str | None, items: int | None, seed: int, output: Output
) -> list[Task]:
    from rolecraft.environments.maths import MathsTasks
    from rolecraft.environments.program_development import program_dev
    from rolecraft.experiments import gsm_plus, humaneval
    from rolecraft.experiments.rows import drawn

    if team is Team.MATHS_CHAT:
        if source is None:
            return MathsTasks().sample(items or OWN_PROBLEMS, seed=seed, split="test")
        return gsm_plus(source, items, seed, on_skip=lambda error: output.warn(str(error)))
    return drawn(program_dev() if source is None else humaneval(source), items, seed)


def _labels(path: Path) -> list[Labels]:
    from rolecraft.failure_taxonomy.labels import read_labels

    return read_labels(path)


async def _play(
    variants: Sequence[Variant],
    tasks: Sequence[Task],
    models: Models,
    output: Output,
    *,
    folder: Path,
    repetitions: int,
    seed: int,
    concurrency: int,
    before: Results,
    usd: float | None,
    calls: int | None,
    annotate: bool,
    labels: Sequence[Labels] | None,
) -> Results:
    from rolecraft.experiments import experiment as played
    from rolecraft.models import Limits

    try:
        with output.bar("runs", max(1, before.estimate.runs)) as step:

            def on_run(run: Played) -> None:
                step("" if run.over else "a run broke off")

            results = await played(
                variants=variants,
                tasks=tasks,
                folder=folder,
                repetitions=repetitions,
                model=models.everyone,
                role_models=models.per_role or None,
                seed=seed,
                concurrency=concurrency,
                limits=Limits(usd=usd, calls=calls),
                on_run=on_run,
                before=before,
            )
    finally:
        await models.aclose()
    if annotate or labels is not None:
        await results.compare_failures(labels)
        results.write()
    return results


def _say_estimate(results: Results, output: Output) -> None:
    left = results.estimate
    if not left.runs:
        output.note("Every run is over already; nothing is played.")
        return
    text = f"{left.runs} runs to play: at least {left.calls} model calls"
    if (expected := left.expected) is not None:
        tokens = expected.prompt_tokens + expected.completion_tokens
        price = "price unknown" if expected.usd is None else f"${expected.usd:.2f}"
        text += f"; by the runs that are over about {expected.calls}, {tokens} tokens, {price}"
    output.note(f"{text}.")


def _show(results: Results, output: Output, *, debug: bool) -> None:
    from rolecraft.experiments.markdown import HEAD, cells, failures_how, how, mode_rows

    rows = [cells(row) for row in results.rows]
    output.table("Experiment", HEAD, rows, numeric=1)
    for text in how(results):
        output.say(text)
    baseline = results.plan.variants[0].name
    for name, found in results.failures.items():
        if listed := mode_rows(found):
            head = ["mode", baseline, name, "p", "Holm"]
            output.table(f"Failures: {baseline} and {name}", head, listed, numeric=1)
        else:
            output.say(f"Failures: none was found in {baseline} or {name}.")
    if results.failures:
        output.say(failures_how(next(iter(results.failures.values()))))
    tell_what_is_open(results, output, debug=debug)
    folder = results.plan.folder
    output.say(f"Written to `{folder / 'results.md'}` and `{folder / 'results.json'}`.")
    if not results.failures and results.complete:
        runs = shlex.quote(str(folder / "runs"))
        output.say(f"Why runs failed: rolecraft report {runs}", style="dim")
