"""`rolecraft compare`: two sets of runs, which failure modes changed, and whether it is chance."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._failures import say_remedies
from rolecraft.cli._judges import Format
from rolecraft.cli._options import Debug, Json, Mapping, Modes
from rolecraft.cli._output import Output
from rolecraft.cli.labels import passed_over
from rolecraft.cli.report import Annotator

if TYPE_CHECKING:
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy.comparison import Comparison
    from rolecraft.failure_taxonomy.distribution import Count
    from rolecraft.failure_taxonomy.labels import Labels


def compare(
    baseline: Annotated[
        Path, typer.Argument(metavar="BASELINE", help="Labels, journals or logs; or a folder.")
    ],
    candidate: Annotated[
        Path, typer.Argument(metavar="CANDIDATE", help="The same of what is new.")
    ],
    mode: Annotated[
        list[str] | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="Test and correct for this mode only. Can be given several times.",
        ),
    ] = None,
    fail_on_increase: Annotated[
        bool,
        typer.Option(
            "--fail-on-increase",
            help="Exit with 4 if a mode that is tested became significantly more frequent, "
            "with 3 if one was judged in less than half as many traces as before.",
        ),
    ] = False,
    alpha: Annotated[
        float,
        typer.Option("--alpha", min=0.0, max=1.0, help="What counts as significant, after Holm."),
    ] = 0.05,
    paired: Annotated[
        bool | None,
        typer.Option(
            "--paired/--unpaired",
            help="Traces of one name are one task played twice; so they are, unless this is given, "
            "if every trace has a partner.",
        ),
    ] = None,
    found: Annotated[
        bool,
        typer.Option(
            "--found",
            help="Compare in how many traces a mode was found; what was not decided counts as not "
            "found. For detectors that can only find.",
        ),
    ] = False,
    annotator: Annotator = None,
    format: Format = None,  # noqa: A002
    mapping: Mapping = None,
    modes: Modes = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare the failures of two sets of runs; as a gate, fail if a mode became more frequent."""
    from rolecraft.failure_taxonomy.comparison import compare as compared

    with Output(json=json) as output:
        broken: list[TraceError] = []
        left = _labels(baseline, annotator, format, broken, output)
        right = _labels(candidate, annotator, format, broken, output)
        result = compared(left, right, modes=mode, paired=paired, found=found)
        increased = result.increases(alpha)
        line = result.to_dict()
        line |= {"alpha": alpha, "increased": [row.mode for row in increased]}
        output.result(line)
        if not json:
            _show(result, alpha, output)
        if increased and not json:
            say_remedies({row.mode: row.candidate.present for row in increased}, output)
        if fail_on_increase and not result.tested:
            raise CommandLineError(
                "`--fail-on-increase` has nothing to go by: no mode was decided in both sets, or "
                "could be denied. See `--found`."
            )
        _say_what_is_judged_less(result, output)
        if fail_on_increase and increased:
            raise typer.Exit(ExitCode.GATE)
        if broken or (fail_on_increase and result.judged_less):
            raise typer.Exit(ExitCode.INCOMPLETE)


def _say_what_is_judged_less(result: Comparison, output: Output) -> None:
    """Modes that a gate would pass because nobody, or hardly anybody, looked any more."""
    less = [row for row in result.modes if row.judged_less]
    if gone := [row.mode for row in less if not row.candidate.judged]:
        output.warn(f"Judged in the baseline and nowhere in the candidate: {', '.join(gone)}.")
    fewer = [
        f"{row.mode} ({row.baseline.judged} of {row.baseline.total} traces, then "
        f"{row.candidate.judged} of {row.candidate.total})"
        for row in less
        if row.candidate.judged
    ]
    if fewer:
        output.warn(f"Judged less than half as often in the candidate: {', '.join(fewer)}.")


def _labels(
    path: Path,
    annotator: str | None,
    form: str | None,
    broken: list[TraceError],
    output: Output,
) -> list[Labels]:
    from rolecraft.failure_taxonomy.distribution_input import labelled_traces

    def warn(error: TraceError) -> None:
        broken.append(error)
        passed_over(error, output)

    found = asyncio.run(labelled_traces(path, annotator=annotator, on_error=warn, format=form))
    return [trace.labels for trace in found]


def _show(found: Comparison, alpha: float, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    before, after = found.traces
    how = "paired by name" if found.paired else "two independent sets"
    output.say(
        f"Baseline: {before} traces, labelled by {', '.join(found.judges[0])}. Candidate: {after} "
        f"traces, labelled by {', '.join(found.judges[1])}; {how}."
    )
    if found.judges[0] != found.judges[1]:
        output.warn("The two sets were labelled by different annotators: they may differ by that.")
    for names, what in zip(found.unpaired, ("baseline", "candidate"), strict=True):
        if names:
            output.warn(f"Without a partner, {len(names)} of the {what}: left out of the tests.")
    if found.one_sided and not found.found:
        output.warn(
            f"Found but never denied, so not comparable this way: {', '.join(found.one_sided)}. "
            "`--found` compares in how many traces they were found."
        )
    rows = [
        [
            row.mode,
            _share(row.baseline, found.found),
            _share(row.candidate, found.found),
            "" if row.test is None else f"{row.test.p:.2g}",
            "" if row.adjusted is None else f"{row.adjusted:.2g}",
            f"{row.baseline.unknown}/{row.candidate.unknown}",
        ]
        for row in found.modes
    ]
    head = ["mode", "baseline", "candidate", "p", "Holm", "unknown"]
    of = "found, of all" if found.found else "present, of those that are decided"
    output.table(f"Failure modes; {of}", head, rows, numeric=3, whole=1)
    tests = dict.fromkeys(row.test.test for row in found.modes if row.test is not None)
    if tests:
        rest = len(found.modes) - found.tested
        output.say(
            f"{', '.join(tests)}, two-sided; p-values corrected by Holm's procedure over "
            f"{count(found.tested, 'mode')}{f', the other {rest} not tested' if rest else ''}; "
            f"alpha {alpha:g}."
        )
    else:
        seen = "found or decided in either set" if found.found else "decided in both sets"
        output.say(f"No test: no mode was {seen}.")
    if found.failures is not None and found.failures_test is not None:
        left, right = found.failures
        output.say(
            f"Failures a trace: {left:.2f} and {right:.2f}, p = {found.failures_test.p:.3g} "
            f"({found.failures_test.test}, {found.failures_test.n} pairs that differ)."
        )
    for row in found.modes:
        if row.significant(alpha) and row.change in ("more", "fewer"):
            style = "red" if row.change == "more" else "green"
            output.say(f"{row.mode}: significantly {row.change}.", style=style)


def _share(counted: Count, found: bool) -> str:
    if found:
        return f"{counted.present} of {counted.total}"
    return f"{counted.present} of {counted.judged}" if counted.judged else "not judged"
