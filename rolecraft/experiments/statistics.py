"""What a variant scored, and whether it differs from the baseline by more than chance.

Tasks are the sample. A task's score is the mean of its repetitions, so that six repetitions of a
task count as one observation that is less noisy, not as six. All sums are of fractions: equal
differences are equal, which Wilcoxon's ranks depend on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from rolecraft.experiments.runs import Played
from rolecraft.failure_taxonomy.significance import Significance, holm, wilcoxon_signed_rank
from rolecraft.trajectories.events import Usage

Scores = Mapping[str, Mapping[int, Fraction]]
"""By task id and repetition."""


@dataclass(slots=True)
class Row:
    """One variant in the table. Percentages are from 0 to 100; None where nothing can be said."""

    variant: str
    title: str
    tasks: int
    runs: int
    unfinished: int
    correct: float | None = None
    """The mean over tasks of each task's mean over its repetitions."""
    standard_error: float | None = None
    """Of that mean: the standard deviation of the tasks' means over the root of their number."""
    repetitions: list[float] = field(default_factory=list)
    """Per cent correct in each repetition that has every task."""
    repetition_sd: float | None = None
    """The sample standard deviation of these."""
    usage: Usage = field(default_factory=lambda: Usage(calls=0, usd=0.0))
    """Of all runs, also of those that broke off. `usd` is None where a price is unknown."""
    calls_a_run: float | None = None
    """Model calls of a run that is over, on average."""
    difference: float | None = None
    """To the baseline, over the tasks that both have."""
    pairs: int = 0
    test: Significance | None = None
    adjusted: float | None = None
    """The p-value after Holm's correction over all variants that are compared."""

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "variant": self.variant,
            "title": self.title,
            "tasks": self.tasks,
            "runs": self.runs,
            "unfinished": self.unfinished,
            "correct_percent": self.correct,
            "standard_error": self.standard_error,
            "repetitions_percent": self.repetitions,
            "repetitions_sd": self.repetition_sd,
            "calls_a_run": self.calls_a_run,
            "usage": {
                "calls": self.usage.calls,
                "prompt_tokens": self.usage.prompt_tokens,
                "completion_tokens": self.usage.completion_tokens,
                "usd": self.usage.usd,
            },
        }
        if self.test is not None:
            row["to_baseline"] = {
                "difference": self.difference,
                "tasks": self.pairs,
                "p": self.test.p,
                "p_holm": self.adjusted,
                "n": self.test.n,
                "test": self.test.test,
            }
        return row


def rows(played: Mapping[str, Sequence[Played]], titles: Mapping[str, str]) -> list[Row]:
    """The table: a row for each variant in order, the first of which is the baseline."""
    made: list[Row] = []
    baseline: Scores = {}
    for name, runs in played.items():
        scores = _scores(runs)
        row = _row(name, titles.get(name, ""), runs, scores)
        if not made:
            baseline = scores
        else:
            _compare(row, baseline, scores)
        made.append(row)
    tested = [row for row in made if row.test is not None]
    corrected = holm([row.test.p for row in tested if row.test is not None])
    for row, adjusted in zip(tested, corrected, strict=True):
        row.adjusted = adjusted
    return made


def _scores(runs: Sequence[Played]) -> Scores:
    scores: dict[str, dict[int, Fraction]] = {}
    for each in runs:
        if each.score is not None:
            by = scores.setdefault(each.run.task.id, {})
            by[each.run.repetition] = Fraction(each.score).limit_denominator(10**6)
    return scores


def _row(name: str, title: str, runs: Sequence[Played], scores: Scores) -> Row:
    over = [each for each in runs if each.over]
    row = Row(name, title, len(scores), len(over), len(runs) - len(over))
    usage = Usage(calls=0, usd=0.0)
    for each in runs:
        usage = usage + each.usage
    if any(each.usage.usd is None for each in runs):
        usage = Usage(usage.prompt_tokens, usage.completion_tokens, None, usage.calls)
    row.usage = usage
    if over:
        row.calls_a_run = sum(each.usage.calls for each in over) / len(over)
    means = [_mean(list(by.values())) for by in scores.values()]
    if means:
        row.correct = float(100 * _mean(means))
        deviation = _deviation(means)
        if deviation is not None:
            row.standard_error = 100 * deviation / math.sqrt(len(means))
    tasks = {each.run.task.id for each in runs}
    whole = [
        [scores[task][number] for task in tasks]
        for number in sorted({each.run.repetition for each in runs})
        if all(number in scores.get(task, {}) for task in tasks)
    ]
    shares = [100 * _mean(each) for each in whole]
    row.repetitions = [float(share) for share in shares]
    row.repetition_sd = _deviation(shares)
    return row


def _compare(row: Row, baseline: Scores, scores: Scores) -> None:
    differences = [
        _mean(list(scores[task].values())) - _mean(list(baseline[task].values()))
        for task in baseline
        if task in scores
    ]
    row.pairs = len(differences)
    if differences:
        row.difference = float(100 * _mean(differences))
        row.test = wilcoxon_signed_rank(map(float, differences))


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _deviation(values: Sequence[Fraction]) -> float | None:
    """The sample standard deviation; None of fewer than two."""
    if len(values) < 2:
        return None
    mean = _mean(values)
    return math.sqrt(sum((each - mean) ** 2 for each in values) / (len(values) - 1))
