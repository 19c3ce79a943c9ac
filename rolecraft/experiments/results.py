"""The results of an experiment: a table, what it cost, which failures changed; and as files.

`results.json` and `results.md` are written anew from the journals each time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.experiments.plan import RUNS, Plan
from rolecraft.experiments.runs import Played, Run, file_name
from rolecraft.experiments.statistics import Row, rows
from rolecraft.failure_taxonomy.comparison import Comparison, compare
from rolecraft.failure_taxonomy.distribution_input import labelled_traces
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.trajectories.events import Usage


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is left to do. `calls` at least; `average` is that of the runs that are over, if any."""

    runs: int
    calls: int
    average: Usage | None = None
    """Of one run that is over; its `calls`, tokens and price times `runs` is what to expect."""
    expected_calls: int | None = None


@dataclass(slots=True)
class Results:
    """What is known of an experiment. `rows` begins with the baseline."""

    plan: Plan
    played: Mapping[str, Sequence[Played]]
    errors: Sequence[tuple[Run, Exception]] = ()
    """Runs that broke off for reasons outside their team; in no row, and open."""
    not_begun: int = 0
    """Runs that a limit kept from beginning."""
    failures: dict[str, Comparison] = field(default_factory=dict)
    """For each variant but the baseline how often each failure mode occurs, before and after."""

    @property
    def rows(self) -> list[Row]:
        titles = {variant.name: variant.title for variant in self.plan.variants}
        return rows(self.played, titles)

    @property
    def complete(self) -> bool:
        return all(each.over for runs in self.played.values() for each in runs)

    @property
    def estimate(self) -> Estimate:
        """What the runs that are not over will cost at least, and by the average of their kind."""
        left, calls, expected, known = 0, 0, 0.0, True
        total, over = Usage(calls=0, usd=0.0), 0
        for variant in self.plan.variants:
            runs = self.played[variant.name]
            done = [each for each in runs if each.over]
            open_runs = len(runs) - len(done)
            left += open_runs
            calls += open_runs * variant.least_calls
            spent = sum(each.usage.calls for each in done)
            known = known and (bool(done) or not open_runs)
            expected += open_runs * spent / len(done) if done else 0.0
            for each in done:
                total = total + each.usage
            over += len(done)
        return Estimate(left, calls, total if over else None, round(expected) if known else None)

    async def compare_failures(self, labels: Sequence[Labels] | None = None) -> None:
        """Compare failure modes with the baseline's, by exact tests paired by task and repetition.

        Labels are those of `rolecraft annotate` on the journals; without any, the detectors look
        at each run, which asks no model. Raises `UsageError` for labels of no run in the folder.
        """
        by_variant: dict[str, list[Labels]] = {}
        for variant in self.plan.variants:
            over = [each.run.journal for each in self.played[variant.name] if each.over]
            if labels is None:
                found = await labelled_traces(over) if over else []
                by_variant[variant.name] = [trace.labels for trace in found]
            else:
                by_variant[variant.name] = _of(labels, file_name(variant.name))
        if labels is not None and not any(by_variant.values()):
            raise UsageError(
                f"None of these labels is of a run of this experiment: the first is of "
                f"{labels[0].trace if labels else ''!r}. Label the journals in "
                f"`{self.plan.folder / RUNS}`."
            )
        baseline, *others = by_variant.items()
        self.failures = {
            name: compare(baseline[1], rows, paired=True)
            for name, rows in others
            if rows and baseline[1]
        }

    def to_dict(self) -> dict[str, Any]:
        """As plain data: `results.json`."""
        plan = self.plan
        line: dict[str, Any] = {
            "model": plan.model,
            "seed": plan.seed,
            "repetitions": plan.repetitions,
            "tasks": len(plan.tasks),
            "baseline": plan.variants[0].name,
            "complete": self.complete,
            "rows": [row.to_dict() for row in self.rows],
        }
        if self.failures:
            line["failures"] = {name: found.to_dict() for name, found in self.failures.items()}
        return line

    def to_markdown(self) -> str:
        """The table and how it was made, for people: `results.md`."""
        from rolecraft.experiments.markdown import page

        return page(self)

    def write(self) -> Path:
        """Write `results.json` and `results.md` into the folder, which is returned."""
        folder = self.plan.folder
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        for name, content in (("results.json", text + "\n"), ("results.md", self.to_markdown())):
            (folder / name).write_text(content, encoding="utf-8")
        return folder


def _of(labels: Sequence[Labels], variant: str) -> list[Labels]:
    """The labels of a variant's runs, whatever folder the annotator ran in."""
    return [
        row
        for row in labels
        if (parts := row.trace.replace("\\", "/").split("/"))[-3:-2] == [variant]
        and (len(parts) < 4 or parts[-4] == RUNS)
    ]
