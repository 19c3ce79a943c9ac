"""Results of an experiment in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rolecraft.failure_taxonomy.comparison import Comparison
from rolecraft.failure_taxonomy.distribution import Count

if TYPE_CHECKING:
    from rolecraft.experiments.results import Results
    from rolecraft.experiments.statistics import Row

HEAD = ("variant", "correct, %", "change", "p", "Holm", "runs", "calls")


def cells(row: Row) -> list[str]:
    """A row of the table as text."""
    share = "" if row.correct is None else f"{row.correct:.2f}"
    if row.standard_error is not None:
        share += f" ± {row.standard_error:.2f}"
    tested = row.test is not None
    return [
        row.variant,
        share,
        "" if row.difference is None else f"{row.difference:+.2f}",
        f"{row.test.p:.3g}" if tested and row.test is not None else "",
        "" if row.adjusted is None else f"{row.adjusted:.3g}",
        f"{row.runs}" + (f" ({row.unfinished} open)" if row.unfinished else ""),
        "" if row.calls_a_run is None else f"{row.calls_a_run:.1f}",
    ]


def mode_rows(found: Comparison) -> list[list[str]]:
    """The modes that are present somewhere, before and after."""
    return [
        [
            row.mode,
            _share(row.baseline),
            _share(row.candidate),
            "" if row.test is None else f"{row.test.p:.2g}",
            "" if row.adjusted is None else f"{row.adjusted:.2g}",
        ]
        for row in found.modes
        if row.baseline.present or row.candidate.present
    ]


def how(results: Results) -> list[str]:
    """How the numbers were made, and what is missing."""
    plan = results.plan
    said = [
        f"{len(plan.tasks)} tasks, {plan.repetitions} "
        f"{'repetition' if plan.repetitions == 1 else 'repetitions'}, model "
        f"{plan.model or '(the roles have their own)'}, seed {plan.seed}.",
        "Correct: mean over tasks ± standard error (a task's score is the mean of its "
        "repetitions). Change and p-value are to the first row, paired by task: Wilcoxon's "
        "signed-rank test, two-sided; Holm corrects for the number of variants. Calls: model "
        "calls of one run, on average.",
    ]
    tests = dict.fromkeys(row.test.test for row in results.rows if row.test is not None)
    if tests:
        said.append(f"Test: {'; '.join(tests)}.")
    spread = [
        f"{row.variant} {row.repetition_sd:.2f}"
        for row in results.rows
        if row.repetition_sd is not None
    ]
    if spread:
        said.append(f"Standard deviation of the repetitions' per cent: {', '.join(spread)}.")
    if not results.complete:
        said.append(
            "This experiment is not complete: the same command goes on with it. Until then "
            "variants are compared on the tasks that both have."
        )
    return said


def page(results: Results) -> str:
    """The whole page."""
    parts = ["# Experiment", table(HEAD, [cells(row) for row in results.rows]), *how(results)]
    baseline = results.plan.variants[0].name
    for name, found in results.failures.items():
        parts.append(f"## Failures: {baseline} and {name}")
        rows = mode_rows(found)
        if rows:
            parts.append(table(("mode", baseline, name, "p", "Holm"), rows))
        else:
            parts.append("No failure mode was found in either.")
        parts.append(failures_how(found))
    return "\n\n".join(parts) + "\n"


def failures_how(found: Comparison) -> str:
    judges = ", ".join(dict.fromkeys((*found.judges[0], *found.judges[1])))
    return (
        f"Runs in which a mode is present, of those in which it is decided; labelled by {judges}. "
        f"Exact McNemar tests, paired by task and repetition, corrected over {found.tested} modes. "
        f"Repetitions of one task are not independent, which makes these p-values too small where "
        f"there are several."
    )


def _share(count: Count) -> str:
    return f"{count.present} of {count.judged}" if count.judged else "not judged"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
