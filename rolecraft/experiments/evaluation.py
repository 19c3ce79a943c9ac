"""What an evaluation found: a row for each entry, who differs from whom, and as files.

`evaluation.json` and `evaluation.md` are written anew from the journals each time.
Invariant: every figure stands beside the number of tasks and runs that it rests on, and what was
not measured (a price, a time, a failure mode) is None, never 0.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rolecraft.experiments.cost import EqualCost
from rolecraft.experiments.entries import Attempt, Entry, Form, attempts_of
from rolecraft.experiments.held_out import HeldOut
from rolecraft.experiments.intervals import Difference, Mean, difference, mean_of, pass_at_k
from rolecraft.experiments.runs import Played, Run
from rolecraft.experiments.setting import Setting
from rolecraft.failure_taxonomy.distribution import Distribution, distribution
from rolecraft.failure_taxonomy.distribution_input import labelled_traces
from rolecraft.failure_taxonomy.significance import holm
from rolecraft.rollouts.where import place_of
from rolecraft.trajectories.whole_file import write_whole


@dataclass(frozen=True, slots=True)
class Measured:
    """One entry, measured. Costs are means of an attempt that is over; None where unknown."""

    name: str
    scenario: str
    model: str
    form: Form
    n: int
    success: Mean
    """The mean over tasks of each task's mean over its attempts: from 0 to 1, or of rewards."""
    pass_at: dict[int, Mean]
    """Where attempts succeed or fail: for each k, over the tasks with k attempts that are over."""
    attempts: int
    """That are over."""
    unfinished: int
    calls: float | None
    tokens: float | None
    usd: float | None
    """None where the price of any of them is unknown."""
    seconds: float | None
    """Of those whose wall time was taken in one piece; of several runs the sum."""
    timed: int
    """So many of them."""
    stops: dict[str, int]
    """How its runs ended."""
    by_task: dict[str, float]
    """Each task's mean."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "scenario": self.scenario,
            "model": self.model,
            "form": self.form,
            "n": self.n,
            "success": self.success.to_dict(),
            "pass_at": {str(k): mean.to_dict() for k, mean in self.pass_at.items()},
            "attempts": self.attempts,
            "unfinished": self.unfinished,
            "per_attempt": {
                "calls": self.calls,
                "tokens": self.tokens,
                "usd": self.usd,
                "seconds": self.seconds,
                "timed": self.timed,
            },
            "stops": self.stops,
        }


@dataclass(slots=True)
class Contrast:
    """`second` less `first`, paired by task."""

    first: str
    second: str
    difference: Difference
    adjusted: float | None = None
    """The p-value after Holm's correction over all contrasts of the evaluation."""

    def to_dict(self) -> dict[str, Any]:
        found = self.difference
        line: dict[str, Any] = {
            "first": self.first,
            "second": self.second,
            "tasks": found.pairs,
            "difference": found.value,
            "low": found.low,
            "high": found.high,
            "first_better": found.only_first,
            "second_better": found.only_second,
        }
        if found.test is not None:
            line |= {"test": found.test.test, "n": found.test.n, "p": found.test.p}
            line["p_holm"] = self.adjusted
        return line


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """Everything that is known of an evaluation."""

    entries: Sequence[Entry]
    played: Mapping[str, Sequence[Played]]
    """By the name of what is played."""
    setting: Setting
    ks: Sequence[int]
    held_out: Mapping[str, HeldOut]
    """By scenario."""
    seed: int
    concurrency: int
    folder: Path
    equal_cost: Sequence[EqualCost]
    pairs: Sequence[tuple[str, str]]
    settings_in_words: Sequence[str]
    wanted: Sequence[str] = ()
    """The baselines that were asked for."""
    errors: Sequence[tuple[Run, BaseException]] = ()
    not_begun: int = 0
    complete: bool = True
    failures: dict[str, Distribution] = field(default_factory=dict)
    """Of each entry whose runs are its own, what the detectors found in them."""
    rows: list[Measured] = field(init=False)
    contrasts: list[Contrast] = field(init=False)
    """Those of `pairs` that both came out of, each with its test."""

    def __post_init__(self) -> None:
        self.rows = [self._row(entry) for entry in self.entries]
        self.contrasts = self._compared()

    @property
    def binary(self) -> bool:
        """True if every attempt succeeded or failed; False where there are rewards in between."""
        scores = (each.score for runs in self.played.values() for each in runs)
        return all(score in (None, 0, 1) for score in scores)

    def _attempts(self, entry: Entry) -> list[Attempt]:
        return attempts_of(entry, self.played[entry.variant.name], self.setting.attempts)

    def _row(self, entry: Entry) -> Measured:
        attempts = self._attempts(entry)
        over = [each for each in attempts if each.score is not None]
        scores: dict[str, list[float]] = {}
        for each in over:
            assert each.score is not None
            scores.setdefault(each.task, []).append(each.score)
        by_task = {task: fmean(values) for task, values in scores.items()}
        pass_at = {}
        for k in self.ks if self.binary else ():
            chances = [
                pass_at_k(len(values), round(sum(values)), k)
                for values in scores.values()
                if len(values) >= k
            ]
            pass_at[k] = mean_of(chances, seed=self.seed)
        seconds = [each.seconds for each in over if each.seconds is not None]
        usd = [each.usage.usd for each in over]
        tokens = [each.usage.prompt_tokens + each.usage.completion_tokens for each in over]
        return Measured(
            name=entry.name,
            scenario=entry.scenario,
            model=entry.model,
            form=entry.form,
            n=entry.n,
            success=mean_of(list(by_task.values()), seed=self.seed),
            pass_at=pass_at,
            attempts=len(over),
            unfinished=len(attempts) - len(over),
            calls=_mean([float(each.usage.calls) for each in over]),
            tokens=_mean([float(each) for each in tokens]),
            usd=_mean([each or 0.0 for each in usd]) if None not in usd else None,
            seconds=_mean(seconds),
            timed=len(seconds),
            stops=dict(Counter(stop for each in over for stop in each.stops).most_common()),
            by_task=by_task,
        )

    def _compared(self) -> list[Contrast]:
        by_name = {row.name: row for row in self.rows}
        found = [
            Contrast(
                first,
                second,
                difference(by_name[first].by_task, by_name[second].by_task, seed=self.seed),
            )
            for first, second in self.pairs
            if first in by_name and second in by_name
        ]
        tests = [each.difference.test for each in found]
        adjusted = iter(holm([test.p for test in tests if test is not None]))
        for each in found:
            each.adjusted = next(adjusted) if each.difference.test is not None else None
        return found

    @property
    def warnings(self) -> list[str]:
        """What a reader has to know before the figures, a sentence each."""
        told = [text for name, found in self.held_out.items() for text in found.warnings(name)]
        told += [
            f"{row.name}: no run came to its end, so nothing is known of it."
            for row in self.rows
            if not row.attempts
        ]
        if not self.complete:
            open_runs = sum(not each.over for runs in self.played.values() for each in runs)
            told.append(
                f"Not complete: {open_runs} runs are open and in no figure. The same call goes on."
            )
        several = [each for each in self.wanted if each in ("best-of-n", "vote")]
        if several and not self.equal_cost:
            told.append(
                f"{' and '.join(several)}: not begun, as it rests on the measured cost of all "
                f"attempts of team and agent{self._holding_up()}."
            )
        if any(each.unit is None for each in self.equal_cost):
            told.append("No cost was measured: nothing here is compared at equal cost.")
        told += [
            f"NOT at equal cost: {each.in_words()}"
            for each in self.equal_cost
            if each.is_far_from_equal
        ]
        return told

    def _holding_up(self) -> str:
        """The tasks whose runs are open, a few of them by name."""
        open_tasks = sorted(
            {each.run.task.id for runs in self.played.values() for each in runs if not each.over}
        )
        if not open_tasks:
            return ""
        more = f" and {len(open_tasks) - 3} more" if len(open_tasks) > 3 else ""
        return f", and runs of {', '.join(open_tasks[:3])}{more} are open"

    async def find_failures(self) -> None:
        """Let the detectors look at the runs of each entry; this asks no model."""
        for entry in self.entries:
            if entry.form in ("team", "single"):
                journals = [
                    each.run.journal
                    for each in self.played[entry.variant.name]
                    if each.over and each.run.repetition <= self.setting.attempts
                ]
                if journals:
                    self.failures[entry.name] = distribution(await labelled_traces(journals))

    def to_dict(self) -> dict[str, Any]:
        """As plain data: `evaluation.json`."""
        return {
            "version": 1,
            "complete": self.complete,
            "warnings": self.warnings,
            "setting": self.setting.to_dict(),
            "seed": self.seed,
            "concurrency": self.concurrency,
            "measure": "success" if self.binary else "reward",
            "confidence": 0.95,
            "held_out": {name: each.to_dict() for name, each in self.held_out.items()},
            "rows": [row.to_dict() for row in self.rows],
            "contrasts": [each.to_dict() for each in self.contrasts],
            "equal_cost": [each.to_dict() for each in self.equal_cost],
            "failures": {
                name: {
                    "runs": found.whole.traces,
                    "judged_by": found.judges,
                    "modes": {
                        mode: count.to_dict()
                        for mode, count in found.whole.modes.items()
                        if count.judged
                    },
                    "not_judged": [
                        mode for mode, count in found.whole.modes.items() if not count.judged
                    ],
                }
                for name, found in self.failures.items()
            },
            "errors": [
                {
                    "run": str(run.journal),
                    "error": type(error).__name__,
                    "says": str(error),
                    "where": place_of(error),
                }
                for run, error in self.errors
            ],
            "not_begun": self.not_begun,
        }

    def to_markdown(self) -> str:
        """Tables and how they were made, for people: `evaluation.md`."""
        from rolecraft.experiments.evaluation_page import page

        return page(self)

    def write(self) -> Path:
        """Write `evaluation.json` and `evaluation.md` into the folder, which is returned."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"
        for name, content in (("evaluation.json", text), ("evaluation.md", self.to_markdown())):
            write_whole(self.folder / name, content)
        return self.folder


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
