"""Find the decisive failure of a trace by asking a model, in one of several ways."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy.attribution.case import Case
from rolecraft.failure_taxonomy.attribution.evidence_first import evidence_first
from rolecraft.failure_taxonomy.attribution.result import Attribution
from rolecraft.failure_taxonomy.attribution.strategies import (
    all_at_once,
    binary_search,
    hybrid,
    role_then_step,
    step_by_step,
)
from rolecraft.failure_taxonomy.judging.answers import NoAnswer
from rolecraft.failure_taxonomy.judging.asking import Asker, tallied
from rolecraft.failure_taxonomy.judging.judge import WINDOW, Judge
from rolecraft.failure_taxonomy.judging.redaction import Redaction
from rolecraft.failure_taxonomy.report import Report
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.models.base import Model, Sampling
from rolecraft.models.budget import Budget
from rolecraft.trajectories.events import FailureFinding
from rolecraft.trajectories.trajectory import Trajectory

EVIDENCE_FIRST = "evidence-first"

PUBLISHED: dict[str, Callable[[Case, Attribution], Awaitable[None]]] = {
    "all-at-once": all_at_once,
    "step-by-step": step_by_step,
    "binary-search": binary_search,
    "hybrid": hybrid,
    "role-then-step": role_then_step,
}

STRATEGIES: dict[str, str] = {
    EVIDENCE_FIRST: "verified findings first, then one call that weighs them",
    "all-at-once": "one call: role and step of the whole record",
    "step-by-step": "a call a step, until one is called decisive",
    "binary-search": "halve the record until one step is left",
    "hybrid": "one call for the role, then a call for each of its steps",
    "role-then-step": "one call for the role, one for which of its steps",
}
"""The known strategies, and what each does."""


class Attributor:
    """Asks `model` (a `Model` or its name) for the decisive failure, by one of `STRATEGIES`.

    `window` is the number of characters of a record that one question may show. `evidence-first`
    keeps to it whatever the length of a record; the other strategies ask about the whole of one,
    and of a longer record they blame nobody, with the reason.

    `sees_outcome` tells the model how the run ended and the right answer, where the trace has
    them; it is written into the result. `redaction` takes secrets out first. `judge` finds the
    candidates of `evidence-first`; by default a `Judge` of the same model, with the same asker.
    `asker` makes the calls (cache, pace), with its own `sampling` and `budget`. `seed` makes the
    fence's marker, and sampling where the model supports it, repeatable.

    Raises `UnknownName` for a strategy that there is not, `UsageError` for a window below 1000.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        strategy: str = EVIDENCE_FIRST,
        window: int = WINDOW,
        sees_outcome: bool = False,
        redaction: Redaction | None = None,
        judge: Judge | None = None,
        sampling: Sampling | None = None,
        seed: int = 0,
        budget: Budget | None = None,
        asker: Asker | None = None,
    ) -> None:
        if strategy not in STRATEGIES:
            raise UnknownName("Strategy", strategy, STRATEGIES)
        if window < 1000:
            raise UsageError(f"A window wants at least 1000 characters, got `window={window!r}`.")
        if isinstance(model, str):
            from rolecraft.models.resolve import resolve_model

            model = resolve_model(model)
        self.model = model
        self.strategy = strategy
        self.window = window
        self.sees_outcome = sees_outcome
        self.redaction = redaction
        self.seed = seed
        self.asker = asker or Asker(model, sampling=sampling, budget=budget)
        self.judge = judge
        if judge is None and strategy == EVIDENCE_FIRST:
            self.judge = Judge(
                model,
                asker=self.asker,
                window=window,
                judge_sees_outcome=sees_outcome,
                seed=seed,
            )

    async def attribute(
        self, trace: Trajectory | TraceView, *, name: str = "", report: Report | None = None
    ) -> Attribution:
        """Whom and which step to blame, for the trace that labels call `name`.

        `report` has the findings that `evidence-first` begins with, if they are known already;
        otherwise detectors look, and the judge is asked. A model that cannot be reached or that
        answers nonsense blames nobody, and the result says why. Raises `LimitReached` when a
        budget is used up, and the errors of a model that is set up wrongly (`MissingKey`).
        """
        view, redacted = TraceView.of(trace), None
        found = self.nobody(name or view.trajectory.id)
        found.problems += view.trajectory.problems
        if self.redaction is not None:
            redacted = await asyncio.to_thread(self.redaction.apply, view)
            view, found.redacted = redacted.view, redacted.counts
        case = await asyncio.to_thread(
            Case,
            view,
            self.asker,
            sees_outcome=self.sees_outcome,
            seed=self.seed,
            window=self.window,
        )
        if not case.steps:
            found.problems.append("nobody of a team does anything in it")
            return found
        if self.strategy != EVIDENCE_FIRST and case.size > self.window:
            found.problems.append(
                f"the record has {case.size:,} characters, and {self.strategy!r} asks about all of "
                f"it at once, which is more than a question may show (`window`, {self.window:,}). "
                f"Take the strategy {EVIDENCE_FIRST!r}, which shows what failures were found and "
                f"what is near them, or a larger window (`--window`) for a model that takes it"
            )
            return found
        with tallied() as tally:
            try:
                if self.strategy == EVIDENCE_FIRST:
                    findings = await self._findings(view, report)
                    if redacted is not None:
                        findings = redacted.hidden(findings)
                    await evidence_first(case, found, findings)
                else:
                    await PUBLISHED[self.strategy](case, found)
            except NoAnswer as error:
                found.problems.append(str(error))
        found.calls = tally.calls
        found.usage = tally.usage + tally.saved
        if redacted is not None:
            found.role = redacted.real_name(found.role)
        return found

    def nobody(self, trace: str) -> Attribution:
        """The blame of a trace that was not looked at."""
        return Attribution(
            trace=trace,
            strategy=self.strategy,
            model=self.model.name,
            sees_outcome=self.sees_outcome,
        )

    async def _findings(self, view: TraceView, report: Report | None) -> list[FailureFinding]:
        if report is None:
            from rolecraft.failure_taxonomy.annotate import annotate

            report = await annotate(view.trajectory, judge=self.judge)
        return report.findings
