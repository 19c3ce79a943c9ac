"""`rolecraft evaluate`: scenarios on held-out tasks, with models and baselines of your choice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._evaluating import Contestants
from rolecraft.cli._evaluation_words import in_options, show_evaluation
from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import (
    BaseUrl,
    Debug,
    Json,
    Out,
    RoleModel,
    RunsAtOnce,
    RunsCalls,
    RunsUsd,
    Seed,
)
from rolecraft.cli._output import Output
from rolecraft.cli._scenarios import SCENARIOS, find_scenario
from rolecraft.cli._target import user_errors
from rolecraft.cli._thinking import ThinkingRoles, thinking_of
from rolecraft.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from rolecraft.experiments.evaluation import Evaluation
    from rolecraft.scenarios import Scenario


class Baseline(StrEnum):
    SINGLE = "single"
    BEST_OF_N = "best-of-n"
    VOTE = "vote"


class Split(StrEnum):
    TEST = "test"
    TRAIN = "train"


class OnSeen(StrEnum):
    REFUSE = "refuse"
    FLAG = "flag"
    DROP = "drop"


class Unit(StrEnum):
    USD = "usd"
    TOKENS = "tokens"
    CALLS = "calls"


_SETTING = "The setting, the same for everybody"
_PEOPLE = "Who is compared"
_TASKS = "Tasks"


def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO", help=f"FILE.py:NAME of your own, or {', '.join(SCENARIOS)}."
        ),
    ],
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            rich_help_panel=_PEOPLE,
            help="A further scenario. Can be given several times.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            rich_help_panel=_PEOPLE,
            help="Model of every role: provider/name, transformers:PATH for a local one, or "
            "FILE.py:NAME for a stand-in of your own. Given several times, they are compared "
            "with the first.",
        ),
    ] = None,
    role_model: RoleModel = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            "--adapter",
            metavar="ROLE=PATH",
            rich_help_panel=_PEOPLE,
            help="A LoRA adapter of a role. Each --model then plays twice: as it is, and with the "
            "adapters. Can be given several times.",
        ),
    ] = None,
    thinking: ThinkingRoles = None,
    base_url: BaseUrl = None,
    baseline: Annotated[
        list[Baseline] | None,
        typer.Option(
            "--baseline",
            rich_help_panel=_PEOPLE,
            help="What the team has to beat: one agent, the best of n runs of it, or what most of "
            "n runs of it answer, where n runs cost as much as one of the team. Can be given "
            "several times.",
        ),
    ] = None,
    single: Annotated[
        str | None,
        typer.Option(
            "--single",
            metavar="SCENARIO",
            rich_help_panel=_PEOPLE,
            help="The one agent; the scenario's `alone` unless given.",
        ),
    ] = None,
    cost: Annotated[
        Unit | None,
        typer.Option(
            "--cost",
            rich_help_panel=_PEOPLE,
            help="In what the cost shall be equal: US dollars where all prices are known, else "
            "tokens, else calls, unless given.",
        ),
    ] = None,
    tasks: Annotated[
        int, typer.Option("--tasks", min=1, rich_help_panel=_TASKS, help="So many tasks.")
    ] = 50,
    split: Annotated[
        Split,
        typer.Option(
            "--split",
            rich_help_panel=_TASKS,
            help="Whose tasks. Results on `train` say that they are not held out.",
        ),
    ] = Split.TEST,
    trained_on: Annotated[
        list[Path] | None,
        typer.Option(
            "--trained-on",
            metavar="PATH",
            rich_help_panel=_TASKS,
            help="Folder of `rolecraft train`, journals or JSON lines: tasks in them are not held "
            "out. Can be given several times.",
        ),
    ] = None,
    seen: Annotated[
        OnSeen,
        typer.Option(
            "--seen",
            rich_help_panel=_TASKS,
            help="What becomes of tasks that were in training: an error, a flag on the results, or "
            "they are left out.",
        ),
    ] = OnSeen.REFUSE,
    attempts: Annotated[
        int,
        typer.Option(
            "--attempts", "-n", min=1, rich_help_panel=_SETTING, help="Play each task so often."
        ),
    ] = 1,
    k: Annotated[
        list[int] | None,
        typer.Option(
            "--k",
            min=1,
            help="For pass@k, from 1 to --attempts; 1 and --attempts unless given. Can be given "
            "several times.",
        ),
    ] = None,
    turns: Annotated[
        int | None,
        typer.Option("--turns", min=1, rich_help_panel=_SETTING, help="Turns of a role in a run."),
    ] = None,
    run_calls: Annotated[
        int | None,
        typer.Option("--run-calls", min=1, rich_help_panel=_SETTING, help="Model calls of a run."),
    ] = None,
    sequence_length: Annotated[
        int | None,
        typer.Option(
            "--sequence-length",
            min=1,
            rich_help_panel=_SETTING,
            help="Tokens of a run, prompts and answers.",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, rich_help_panel=_SETTING, help="Tokens of an answer."),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            min=0.0,
            rich_help_panel=_SETTING,
            help="Where an action does not say itself.",
        ),
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", min=0.0, max=1.0, rich_help_panel=_SETTING)
    ] = None,
    run_seconds: Annotated[
        float | None,
        typer.Option(
            "--run-seconds", min=0.0, rich_help_panel=_SETTING, help="Wall time of a run."
        ),
    ] = None,
    out: Out = Path("evaluation"),
    seed: Seed = 0,
    concurrency: RunsAtOnce = 8,
    usd: RunsUsd = None,
    calls: RunsCalls = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say how well scenarios do on held-out tasks, and against what; the same command goes on."""
    from rolecraft.experiments.setting import Setting
    from rolecraft.models import Limits

    with Output(json=json, makes=True) as output:
        scenarios = [find_scenario(name, "evaluated") for name in (target, *(scenario or ()))]
        contestants = Contestants(
            model or (),
            role_model or (),
            adapter or (),
            base_url=base_url,
            thinking=thinking_of(thinking),
        )
        contestants.check_roles(scenarios)
        contestants.check_keys()
        contestants.say_who_plays(scenarios, output)
        with user_errors("the evaluation failed"):
            found = asyncio.run(
                _evaluate(
                    scenarios,
                    contestants,
                    output,
                    trained_on or (),
                    folder=out,
                    tasks=tasks,
                    setting=Setting(
                        attempts=attempts,
                        turns=turns,
                        calls=run_calls,
                        sequence_length=sequence_length,
                        max_tokens=max_tokens,
                        temperature=temperature,
                        top_p=top_p,
                        seconds=run_seconds,
                    ),
                    ks=k,
                    baselines=[each.value for each in dict.fromkeys(baseline or ())],
                    single=None if single is None else find_scenario(single, "evaluated"),
                    cost=None if cost is None else cost.value,
                    split=split.value,
                    on_seen=seen.value,
                    seed=seed,
                    concurrency=concurrency,
                    limits=Limits(usd=usd, calls=calls),
                )
            )
        output.result(found.to_dict() | {"folder": str(out)})
        show_evaluation(found, output, debug=debug)
        if not found.complete:
            raise typer.Exit(ExitCode.INCOMPLETE)


async def _evaluate(
    scenarios: Sequence[Scenario],
    contestants: Contestants,
    output: Output,
    trained_on: Sequence[Path],
    **options: Any,
) -> Evaluation:
    from rolecraft.experiments.evaluate import evaluate as evaluated
    from rolecraft.experiments.held_out import seen_in
    from rolecraft.viewer.evaluation import evaluation_page
    from rolecraft.viewer.page import write_page

    try:
        await contestants.load()
        found = await evaluated(
            scenarios,
            models=contestants.by_label or None,
            role_models=contestants.role_models or None,
            identities=contestants.identities,
            seen=seen_in(trained_on),
            bar=output.bar,
            **options,
        )
    except UnknownName as error:
        raise CommandLineError(str(error)) from error
    except UsageError as error:
        raise CommandLineError(in_options(str(error))) from error
    finally:
        await contestants.aclose()
    write_page(found.folder / "evaluation.html", evaluation_page(found))
    return found
