"""`rolecraft blame`: whose mistake decided that a run failed, and at which step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._campaigns import OutFile, check_out, check_paths, telling_the_cost, told
from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._judges import (
    PANEL,
    BaseUrl,
    Cache,
    Calls,
    Concurrency,
    Format,
    MaxTokens,
    NoCache,
    Redact,
    RedactPattern,
    SeesOutcome,
    Tokens,
    Usd,
    Window,
    asker_of,
    cache_folder,
    redaction_of,
)
from rolecraft.cli._models import Models
from rolecraft.cli._options import Debug, Json, Mapping, Modes
from rolecraft.cli._output import Output
from rolecraft.cli._retries import brief_retries
from rolecraft.cli._wording import in_words_of_commands

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy.attribution import Attribution
    from rolecraft.failure_taxonomy.attribution.blaming import Blaming


def blame(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Journals, logs, or folders of them.")
    ],
    judge: Annotated[str, typer.Option("--judge", metavar="MODEL", help="Model to ask.")],
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="How it is asked: evidence-first (what is proved, then one question), "
            "all-at-once, step-by-step, binary-search, hybrid or role-then-step.",
            rich_help_panel=PANEL,
        ),
    ] = "evidence-first",
    out: OutFile = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    window: Window = None,
    sees_outcome: SeesOutcome = False,
    usd: Usd = None,
    calls: Calls = None,
    tokens: Tokens = None,
    max_tokens: MaxTokens = None,
    base_url: BaseUrl = None,
    redact: Redact = False,
    redact_pattern: RedactPattern = None,
    concurrency: Concurrency = 8,
    format: Format = None,  # noqa: A002
    mapping: Mapping = None,
    modes: Modes = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Name the decisive failure of runs that failed: the role, the step and the reason.

    The lines of --json and --out are labels: `rolecraft agreement GOLD FILE` scores them.
    """
    with Output(json=json, makes=out is not None) as output:
        check_paths(paths)
        redaction = redaction_of(redact, redact_pattern)
        answers = cache_folder(cache, out, off=no_cache)
        check_out(out, paths)
        _check_strategy(strategy)
        models = Models(judge, option="--judge", base_url=base_url)
        models.check_keys()

        from rolecraft.failure_taxonomy.attribution import Attributor
        from rolecraft.failure_taxonomy.attribution.blaming import Blaming
        from rolecraft.failure_taxonomy.judging.judge import WINDOW

        asker = asker_of(
            models.everyone,
            answers,
            usd=usd,
            calls=calls,
            tokens=tokens,
            max_tokens=max_tokens,
            concurrency=concurrency,
        )
        assert asker is not None  # --judge is required
        attributor = Attributor(
            asker.model,
            strategy=strategy,
            window=window or WINDOW,
            sees_outcome=sees_outcome,
            redaction=redaction,
            asker=asker,
        )
        campaign = Blaming(
            paths, attributor=attributor, out=out, format=format, concurrency=concurrency
        )
        brief_retries(debug=debug)
        with telling_the_cost(campaign, output):
            found, broken = asyncio.run(_blame(campaign, models, output))
        _summary(found, output)
        if broken:
            output.say(f"{broken} could not be read (see above).", style="yellow")
        unfinished = told(campaign, len(found), output)
        if found and all(result.why for result in found):
            output.warn("No answer could be used.")
            unfinished = True
        if broken or unfinished:
            raise typer.Exit(ExitCode.INCOMPLETE if found or unfinished else ExitCode.ERROR)


def _check_strategy(strategy: str) -> None:
    from rolecraft.errors import UnknownName
    from rolecraft.failure_taxonomy.attribution import STRATEGIES

    if strategy not in STRATEGIES:
        raise CommandLineError(f"`--strategy`: {UnknownName('Strategy', strategy, STRATEGIES)}")


async def _blame(
    campaign: Blaming, models: Models, output: Output
) -> tuple[list[Attribution], int]:
    """Whom each trace blames, and how many files cannot be read."""
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy.judging.campaign import NOT_LOOKED

    found: list[Attribution] = []
    broken = 0
    try:
        with output.counter("traces") as count:
            async for result in campaign.run():
                count()
                if isinstance(result, TraceError):
                    broken += 1
                    output.warn(result)
                    continue
                found.append(result)
                output.result(result.to_dict())
                # Why a judge refused is told once for all traces, at the end.
                short = str(result).partition(f"{NOT_LOOKED}: ")
                output.say(in_words_of_commands(short[0] + (NOT_LOOKED if short[1] else "")))
    finally:
        await models.aclose()
    return found, broken


def _summary(found: list[Attribution], output: Output) -> None:
    if not found:
        return
    blamed = sum(result.labels.decisive is not None for result in found)
    steps = sum(result.step is not None for result in found)
    traces = "1 trace" if len(found) == 1 else f"{len(found)} traces"
    output.say()
    output.say(f"In {blamed} of {traces} somebody is blamed, in {steps} with the step.")
