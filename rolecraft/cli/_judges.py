"""Options of commands that ask a judge about many traces, and what is made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from rolecraft.cli._exits import CommandLineError

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy import Report
    from rolecraft.failure_taxonomy.judging.asking import Asker
    from rolecraft.failure_taxonomy.judging.redaction import Redaction
    from rolecraft.models import Model

PANEL = "The judge"
"""Under this title the help lists options that are about a judge."""

Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        file_okay=False,
        help="Folder for the judge's answers, which are not asked for again; with --out, by "
        "default a hidden one beside it.",
        rich_help_panel=PANEL,
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache", help="Keep no answers, and use none that were kept.", rich_help_panel=PANEL
    ),
]
Samples = Annotated[
    int,
    typer.Option(
        "--samples",
        min=1,
        help="Ask everything so often, and let them vote.",
        rich_help_panel=PANEL,
    ),
]
Variant = Annotated[
    str,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="How the judge is asked: zero-shot or few-shot.",
        rich_help_panel=PANEL,
    ),
]
Agree = Annotated[
    float,
    typer.Option(
        "--agree",
        metavar="SHARE",
        help="Of several samples, this share has to say the same; a mode is unknown otherwise.",
        rich_help_panel=PANEL,
    ),
]
Grouping = Annotated[
    str,
    typer.Option(
        "--grouping",
        metavar="NAME",
        help="Ask about all modes at once (all), by category, or one mode at a time (mode).",
        rich_help_panel=PANEL,
    ),
]
Window = Annotated[
    int | None,
    typer.Option(
        "--window",
        min=1000,
        metavar="CHARACTERS",
        help="Trace that one call gets, for a model that takes less than 300,000 characters.",
        rich_help_panel=PANEL,
    ),
]
SeesOutcome = Annotated[
    bool,
    typer.Option(
        "--sees-outcome",
        help="Tell the judge how each run ended; the labels then say so.",
        rich_help_panel=PANEL,
    ),
]
MeasuredFile = Annotated[
    Path | None,
    typer.Option(
        "--agreement",
        metavar="FILE",
        dir_okay=False,
        help="What was measured of this judge's agreement with people, to be shown.",
        rich_help_panel=PANEL,
    ),
]
Usd = Annotated[
    float | None,
    typer.Option(
        "--usd",
        min=0.0,
        help="Stop before this run of the judge costs more US dollars.",
        rich_help_panel=PANEL,
    ),
]
Calls = Annotated[
    int | None,
    typer.Option(
        "--calls",
        min=0,
        help="Stop before this run makes more calls of the judge.",
        rich_help_panel=PANEL,
    ),
]
Tokens = Annotated[
    int | None,
    typer.Option(
        "--tokens",
        min=0,
        help="Stop before this run's calls of the judge take more tokens.",
        rich_help_panel=PANEL,
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        min=1,
        metavar="TOKENS",
        help="The longest answer that the judge may give; by default the model's own limit.",
        rich_help_panel=PANEL,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Address of a server of your own that speaks OpenAI's protocol, such as "
        "http://localhost:8000/v1; the judge is then openai/NAME.",
        rich_help_panel=PANEL,
    ),
]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Take keys, tokens, passwords, e-mail addresses and the like out of what the judge "
        "sees.",
        rich_help_panel=PANEL,
    ),
]
RedactPattern = Annotated[
    list[str] | None,
    typer.Option(
        "--redact-pattern",
        metavar="REGEX",
        help="Take out what this matches, too. Can be given several times.",
        rich_help_panel=PANEL,
    ),
]
Concurrency = Annotated[
    int,
    typer.Option(
        "--concurrency",
        min=1,
        help="Calls of the judge at once, fewer while its server says so.",
        rich_help_panel=PANEL,
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of the files; recognised otherwise."),
]


def need_judge(judge: str | None, given: Mapping[str, bool]) -> None:
    """Raise `CommandLineError` for an option that is about a judge, if there is none."""
    for option, is_given in given.items():
        if is_given and judge is None:
            raise CommandLineError(f"`{option}` is about a judge: name one with --judge.")


def check_choices(grouping: str, samples: int, agree: float) -> None:
    """Raise `CommandLineError` for an unknown grouping, and a share that decides nothing."""
    from rolecraft.failure_taxonomy.judging.judge import Grouping as Known

    if grouping not in get_args(Known):
        listed = " or ".join(f"`{name}`" for name in get_args(Known))
        raise CommandLineError(f"`--grouping {grouping}`: write {listed}.")
    if not 0.5 < agree <= 1:
        raise CommandLineError(
            f"`--agree {agree:g}`: of {samples} samples more than half have to agree; write a "
            f"share above 0.5, up to 1."
        )


def shots_of(variant: str) -> int:
    """The number of worked examples that a variant shows."""
    from rolecraft.failure_taxonomy.judging import VARIANTS

    if variant not in VARIANTS:
        listed = " or ".join(f"`{name}`" for name in VARIANTS)
        raise CommandLineError(f"`--variant {variant}`: write {listed}.")
    return VARIANTS[variant]


def redaction_of(wanted: bool, patterns: Sequence[str] | None) -> Redaction | None:
    """What is taken out: the usual secrets, patterns of the user's, both or nothing."""
    from rolecraft.errors import UsageError
    from rolecraft.failure_taxonomy.judging.redaction import RULES, Redaction

    if not wanted and not patterns:
        return None
    try:
        return Redaction(patterns or (), rules=RULES if wanted else ())
    except UsageError as error:
        raise CommandLineError(f"`--redact-pattern`: {error}") from error


def cache_folder(named: Path | None, out: Path | None, *, off: bool) -> Path | None:
    """Where answers are kept: in the named folder, or hidden beside the output."""
    if off and named is not None:
        raise CommandLineError("`--cache` and `--no-cache`: give one of them.")
    if off or named is not None or out is None:
        return None if off else named
    return out.with_name(f".{out.name}.answers")


def asker_of(
    model: Model | None,
    cache: Path | None,
    *,
    usd: float | None,
    calls: int | None,
    tokens: int | None,
    max_tokens: int | None,
    concurrency: int,
) -> Asker | None:
    """Who asks the model: with a cache, a pace and a budget. None without a model."""
    if model is None:
        return None
    from rolecraft.failure_taxonomy.judging.asking import Asker
    from rolecraft.models import Budget, Limits, PromptCache, RateLimiter, Sampling

    limited = any(limit is not None for limit in (usd, calls, tokens))
    limits = Limits(usd=usd, calls=calls, tokens=tokens)
    return Asker(
        model,
        sampling=None if max_tokens is None else Sampling(max_tokens=max_tokens),
        budget=Budget(limits, name="the judge") if limited else None,
        cache=None if cache is None else PromptCache(cache),
        pace=RateLimiter(start=concurrency, most=concurrency),
    )


def reliability(reports: Sequence[Report]) -> list[str]:
    """What there is to know about how far the judge's labels can be trusted."""
    opinions = [report.opinion for report in reports if report.opinion is not None]
    asked = [opinion for opinion in opinions if opinion.windows]
    if not asked:
        return []
    secrets = Counter(name for opinion in asked for name in Counter(opinion.redacted).elements())
    first = replace(asked[0], redacted=None if asked[0].redacted is None else dict(secrets))
    dropped = sum(len(opinion.dropped) for opinion in asked)
    least = min(opinion.coverage for opinion in asked)
    covered = f"{min(int(100 * least), 99) if least < 1 else 100}% of the text covered"
    if len(asked) > 1 and least < 1:
        covered = f"at least {covered} in each trace"
    findings = "1 finding" if dropped == 1 else f"{dropped} findings"
    said = [
        f"Judge {first.model} ({', '.join(first.how)}): {covered}, {findings} dropped for want of "
        f"evidence; {first.how_reliable}."
    ]
    notes = Counter(note for opinion in asked for note in dict.fromkeys(opinion.notes))
    traces = f" of {len(asked)} traces" if len(asked) > 1 else ""
    said += [
        f"Judge: {note}{f' (in {number}{traces})' if traces else ''}"
        for note, number in notes.items()
    ]
    return said
