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
    """What is left to do, and what it will cost."""

    runs: int
    calls: int
    """Model calls, at least: what the teams need by their structure."""
    expected: Usage | None = None
    """By the average of those runs of each variant that are over; None where one has none yet."""


@dataclass(slots=True)
class Results:
    """What is known of an experiment. `rows` begins with the baseline."""

    plan: Plan
    played: Mapping[str, Sequence[Played]]
    errors: Sequence[tuple[Run, BaseException]] = ()
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
        left, calls, expected = 0, 0, Usage(calls=0, usd=0.0)
        known = priced = True
        for variant in self.plan.variants:
            runs = self.played[variant.name]
            done = [each.usage for each in runs if each.over]
            to_play = sum(each.to_play for each in runs)
            left += to_play
            calls += to_play * variant.least_calls
            known = known and bool(done or not to_play)
            priced = priced and all(usage.usd is not None for usage in done)
            share = to_play / len(done) if done else 0.0
            expected = expected + Usage(
                round(share * sum(usage.prompt_tokens for usage in done)),
                round(share * sum(usage.completion_tokens for usage in done)),
                share * sum(usage.usd or 0.0 for usage in done),
                round(share * sum(usage.calls for usage in done)),
            )
        if not priced:
            expected.usd = None
        return Estimate(left, calls, expected if known else None)

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
