"""The environment of `web_research`: a question, a web, and what is measured of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.environments.web_research.another_model import check_another
from rolecraft.environments.web_research.grading import (
    MAIN,
    TARGETS,
    Check,
    ResearchGrader,
    Target,
    accepted_answers,
    question_of,
)
from rolecraft.environments.web_research.judging import ResearchJudge
from rolecraft.environments.web_research.record import searches
from rolecraft.environments.web_research.web import Web
from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.base import Model
from rolecraft.roles.role import Role
from rolecraft.trajectories.events import Signal


class WebResearchEnvironment(TaskEnvironment):
    """One question. The answer is what the role `answers` submits, or else says last. Signals:

    - `answer.given` and `answer.correct`, 0 or 1;
    - `information.quality`, from 0 to 1: three quarters for the share of claims that pages carry
      which were really read (`information.supported`), and as much of the last quarter as these
      pages come from as many sources as the reference does;
    - `information.pages` and `information.domains`: pages that were read, and their sources:
      registrable domains, and files without a web address each for itself;
    - `reasoning.chain`, from 0 to 1: the share of the links from the question to the answer that
      hold;
    - `searches`, and `judge.cost` in US dollars where it is known.

    The evidence for each stands in the record, in an event `verify`. `judge` is a model, its name,
    or a `ResearchJudge`; it must be another model than those of the roles (`JudgeIsPolicy`).
    Without one only what can be measured without a model is. Where the judge or the web was down,
    the signals that it decides are not there at all, and an event `error` says why.

    Raises `UnknownName` if there is no role `answers`.
    """

    def __init__(
        self,
        task: Task,
        roles: Iterable[Role] = (),
        *,
        web: Web,
        answers: str = "Researcher",
        judge: ResearchJudge | Model | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(task, roles, **options)
        if not isinstance(web, Web):
            raise UsageError(f"`web` is {web!r}, expected a `Web(search=..., pages=...)`.")
        if answers not in self.roles:
            raise UnknownName("Role", answers, self.roles)
        question_of(task), accepted_answers(task)
        self.web, self.answers = web, answers
        self.judge = (
            judge if judge is None or isinstance(judge, ResearchJudge) else ResearchJudge(judge)
        )
        self.web_calls: dict[tuple[str, str, str], int] = {}
        """Calls of the tools so far, by role, piece of work and tool."""
        self._check_judge()
        self.about.setdefault("goal", {"answer": answers})
        self.about.setdefault("outcome", {"signal": "answer.correct", "at_least": 1})

    async def setup(self) -> None:
        """Check once more that the judge is another: models can be set until now."""
        self._check_judge()

    async def grade(self) -> list[Signal]:
        grader = ResearchGrader(self.judge)
        trajectory = self.trajectory
        if self.judge is not None:  # an action may have asked any model
            asked = ((event.role, event.data.get("model")) for event in trajectory.of("model_call"))
            check_another(self.judge.model, dict.fromkeys(asked))
        checks: list[Check] = []
        for target in TARGETS:
            check = self._known(target) or await grader.check(
                target, self.task, trajectory, answers=self.answers
            )
            self.record(check.event())
            checks.append(check)
        return [
            *(
                self._signal(name, value, check)
                for check in checks
                for name, value in check.values.items()
            ),
            Signal("searches", float(searches(trajectory.events)), unit="searches"),
            *_cost_of(checks),
        ]

    def _check_judge(self) -> None:
        if self.judge is not None:
            theirs = ((name, role.model or self.model) for name, role in self.roles.items())
            check_another(self.judge.model, theirs)

    def _known(self, target: Target) -> Check | None:
        """A check that the record has already, of an episode that is graded again.

        It counts as it was: a judge need not say the same twice, nor be paid twice.
        """
        for event in self.past.known if self.past is not None else ():
            check = Check.of(event)
            if check is not None and check.target == target:
                return check
        return None

    def _signal(self, name: str, value: float, check: Check) -> Signal:
        last = name.rpartition(".")[2]
        counted = last in ("given", "pages", "domains")
        return Signal(
            name,
            value,
            unit=last if last in ("pages", "domains") else "",
            source=f"judge {check.judge}" if check.judge and not counted else "environment",
            role=self.answers,
            step=check.evidence.get("step"),
            cost=check.cost if name == MAIN[check.target] else None,
        )


def _cost_of(checks: Iterable[Check]) -> list[Signal]:
    known = [check.cost for check in checks if check.cost is not None]
    return [Signal("judge.cost", sum(known), unit="USD")] if known else []
