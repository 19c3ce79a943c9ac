"""`rolecraft annotate`: say which failure modes occur in traces, where, and through whom."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._campaigns import OutFile, check_out, check_paths, telling_the_cost, told
from rolecraft.cli._exits import ExitCode
from rolecraft.cli._failures import counts, coverage, failures_table, left_open, say_remedies
from rolecraft.cli._judges import (
    PANEL,
    Agree,
    BaseUrl,
    Cache,
    Calls,
    Concurrency,
    Format,
    Grouping,
    MaxTokens,
    MeasuredFile,
    NoCache,
    Redact,
    RedactPattern,
    Samples,
    SeesOutcome,
    Tokens,
    Usd,
    Variant,
    Window,
    asker_of,
    cache_folder,
    check_choices,
    need_judge,
    redaction_of,
    reliability,
    shots_of,
)
from rolecraft.cli._models import Models
from rolecraft.cli._options import Debug, Json, Mapping, Modes, own_rules
from rolecraft.cli._output import Output
from rolecraft.cli._retries import brief_retries
from rolecraft.cli._wording import in_words_of_commands

if TYPE_CHECKING:
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy import Report
    from rolecraft.failure_taxonomy.judging.campaign import Campaign


def annotate(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Journals, logs, or folders of them.")
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            metavar="MODEL",
            help="Model to ask about what the detectors leave open; without it, detectors only.",
        ),
    ] = None,
    out: OutFile = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    samples: Samples = 1,
    agree: Agree = 0.6,
    variant: Variant = "zero-shot",
    grouping: Grouping = "all",
    window: Window = None,
    sees_outcome: SeesOutcome = False,
    agreement: MeasuredFile = None,
    usd: Usd = None,
    calls: Calls = None,
    tokens: Tokens = None,
    max_tokens: MaxTokens = None,
    base_url: BaseUrl = None,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate",
            help="Only say what the judge would cost; ask nothing.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    redact: Redact = False,
    redact_pattern: RedactPattern = None,
    concurrency: Concurrency = 8,
    format: Format = None,  # noqa: A002
    mapping: Mapping = None,
    modes: Modes = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Label the failures of runs: a trajectory, a log file of another tool, or a folder."""
    with Output(json=json, makes=out is not None) as output:
        need_judge(
            judge,
            {
                "--usd": usd is not None,
                "--calls": calls is not None,
                "--tokens": tokens is not None,
                "--max-tokens": max_tokens is not None,
                "--base-url": base_url is not None,
                "--estimate": estimate,
                "--cache": cache is not None,
                "--samples": samples > 1,
                "--variant": variant != "zero-shot",
                "--grouping": grouping != "all",
                "--window": window is not None,
                "--sees-outcome": sees_outcome,
                "--agreement": agreement is not None,
                "--redact": redact,
                "--redact-pattern": bool(redact_pattern),
            },
        )
        check_paths(paths)
        check_choices(grouping, samples, agree)
        models = Models(judge, option="--judge", base_url=base_url)
        redaction = redaction_of(redact, redact_pattern)
        shots = shots_of(variant)
        answers = cache_folder(cache, out, off=no_cache)
        if not estimate:
            models.check_keys()
        asker = asker_of(
            models.everyone,
            answers,
            usd=usd,
            calls=calls,
            tokens=tokens,
            max_tokens=max_tokens,
            concurrency=concurrency,
        )

        from rolecraft.failure_taxonomy import Judge
        from rolecraft.failure_taxonomy.judging.campaign import Campaign
        from rolecraft.failure_taxonomy.judging.judge import WINDOW

        asked = None
        if asker is not None:
            asked = Judge(
                asker.model,
                asker=asker,
                samples=samples,
                agree=agree,
                shots=shots,
                window=window or WINDOW,
                grouping=grouping,  # type: ignore[arg-type]  # checked above
                judge_sees_outcome=sees_outcome,
                agreement=agreement,
                redaction=redaction,
            )
        campaign = Campaign(
            paths,
            judge=asked,
            out=out,
            format=format,
            detectors=own_rules(modes),
            concurrency=concurrency,
        )
        check_out(out, paths)
        brief_retries(debug=debug)
        with telling_the_cost(campaign, output):
            reports, broken = asyncio.run(
                _annotate(campaign, models, output, only_estimate=estimate)
            )
        if estimate:
            return
        _summary(reports, broken, output)
        for line in reliability(reports):
            output.say(line)
        unfinished = told(campaign, len(reports), output)
        if broken or unfinished:
            raise typer.Exit(ExitCode.INCOMPLETE if reports or unfinished else ExitCode.ERROR)


async def _annotate(
    campaign: Campaign, models: Models, output: Output, *, only_estimate: bool
) -> tuple[list[Report], list[TraceError]]:
    """The reports, and the errors of files that cannot be read."""
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy.judging.campaign import NOT_LOOKED

    reports: list[Report] = []
    broken: list[TraceError] = []
    try:
        if campaign.judge is not None:
            await _estimate(campaign, output, only=only_estimate)
        if only_estimate:
            return reports, broken
        with output.counter("traces") as count:
            async for report in campaign.run():
                count()
                if isinstance(report, TraceError):
                    broken.append(report)
                    output.warn(report)
                    continue
                reports.append(report)
                output.result(report.to_dict())
                if campaign.out is not None:
                    output.note(_in_a_line(report))
                elif not output.json:
                    failures_table(report, output)
                for problem in [*report.warnings, *report.problems]:
                    if not problem.startswith(NOT_LOOKED):  # told once for all, at the end
                        output.warn(_with_name(report.trace, problem))
    finally:
        await models.aclose()
    return reports, broken


def _in_a_line(report: Report) -> str:
    """What was found in a trace, where its labels go to a file."""
    found = dict.fromkeys(finding.mode for finding in report.present)
    if not report.judged:
        return f"{report.trace}: nothing could be judged"
    return f"{report.trace}: {', '.join(found) or 'no failure found'}"


def _with_name(trace: str, problem: str) -> str:
    return problem if Path(trace).name in problem else f"{trace}: {problem}"


async def _estimate(campaign: Campaign, output: Output, *, only: bool) -> None:
    from dataclasses import asdict

    from rolecraft.failure_taxonomy.judging.estimate import estimate

    with output.counter("traces looked at, nothing asked yet") as count:
        found = await estimate(campaign, on_trace=count)
    if only:
        output.result(asdict(found))
        output.say(str(found))
        if found.unreadable:
            output.warn(f"{found.unreadable} could not be read.")
    else:
        output.note(str(found))


def _summary(reports: list[Report], broken: list[TraceError], output: Output) -> None:
    from rolecraft.failure_taxonomy import MAST_V3, MODES
    from rolecraft.trajectories.in_words import count

    if reports:
        rows = []
        for mode in MODES.values():
            verdicts = {"present": 0, "absent": 0, "unknown": 0}
            for report in reports:
                said = {finding.verdict for finding in report.findings if finding.mode == mode.id}
                verdicts[next(v for v in verdicts if v in said)] += 1
            rows.append([MAST_V3.code(mode.id), mode.id, *verdicts.values()])
        head = ["code", "mode", "present", "absent", "not judged"]
        output.say()
        title = f"{count(len(reports), 'trace')}; codes of {MAST_V3.name}"
        output.table(title, head, rows, numeric=2)
        output.say(coverage(reports))
        for reason in left_open(reports):
            output.say(in_words_of_commands(reason), style="dim")
        say_remedies(counts(reports), output)
    if broken:
        output.say(f"{len(broken)} could not be read (see above).", style="yellow")
