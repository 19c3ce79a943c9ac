"""Plans: which actions, what to do in each, and which must be finished before which.

Invariant: a step that is finished stays finished. Whatever the model writes when it plans anew,
its steps come after the finished ones, which keep their ids and results and are never done again.
A plan is worked off in its own order, except that a step waits for those it depends on. Everything
here is role code: what a person or a function says about a plan is asked for in an action,
`ReviewPlan`, so that the record has it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from rolecraft.actions import Action
from rolecraft.actions.failed import has_failed
from rolecraft.errors import PlanAbandoned, UsageError
from rolecraft.models.base import Model
from rolecraft.roles.choosing import PLAN_STEP, as_lines

if TYPE_CHECKING:
    from rolecraft.models.base import Session
    from rolecraft.roles.role import Role


class Step(BaseModel):
    """A step as the model writes it; `action` is its name in the menu."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = Field("", description="a short name of the step, its number unless set")
    action: str
    instruction: str = Field("", description="what to do in this step")
    depends_on: list[str] = Field([], description="ids of the steps that must be finished first")


@dataclass(slots=True)
class PlannedStep:
    """A step of a plan that is worked off."""

    id: str
    place: int
    """The index of its action in the role's list."""
    action: str
    instruction: str
    depends_on: tuple[str, ...]
    status: Literal["waiting", "begun", "finished", "failed"] = "waiting"
    result: str = ""
    """What the role said in it."""

    def __str__(self) -> str:
        text = f"{self.id} {self.action}: {self.instruction}".rstrip(": ")
        if self.depends_on:
            text += f" (after {', '.join(self.depends_on)})"
        return f"{text} [{self.status}]" + (f": {self.result}" if self.result else "")


@dataclass(slots=True)
class Plan:
    """The plan of one run. `str(plan)` shows it, a step a line."""

    session: Session
    """The conversation in which it is written."""
    steps: list[PlannedStep] = field(default_factory=list)
    changes: int = 0
    """How often it was written anew."""
    _reason: str = ""
    _seen: int = 0

    def replan(self, reason: str) -> None:
        """Have it written anew, for this reason, before the next step."""
        self._reason = reason or "another plan is wanted"

    @property
    def finished(self) -> list[PlannedStep]:
        return [step for step in self.steps if step.status == "finished"]

    @property
    def next(self) -> PlannedStep | None:
        """The first step that waits for none that is not finished."""
        finished = {step.id for step in self.finished}
        for step in self.steps:
            if step.status == "waiting" and finished.issuperset(step.depends_on):
                return step
        return None

    def __str__(self) -> str:
        return "\n".join(f"- {step}" for step in self.steps)


PlanReviewer = Callable[[Plan], str | Awaitable[str | None] | None]
"""Looks at a plan: None or an empty text accepts it, any other text says what must change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """How a role in the mode `plan_and_act` plans.

    `review` accepts a plan before it is worked off, or says what must change: a model, which may
    be a person (`HumanModel()`, `"human"`), or a function, which may be async. With `each_step` it
    looks at it again after every step. A plan may be written anew `changes` times in one run.
    """

    review: Model | str | PlanReviewer | None = None
    each_step: bool = False
    changes: int = 5

    def __post_init__(self) -> None:
        if not (self.review is None or isinstance(self.review, (Model, str))) and not callable(
            self.review
        ):
            raise UsageError(
                f"`Planning(review=...)` wants a model or a function of a `Plan`, got "
                f"{self.review!r}."
            )


DEFAULT = Planning()


async def next_step(role: Role, choices: dict[str, str]) -> PlannedStep | None:
    """The step of the role's plan to be done now, over a menu of actions; None at its end.

    Writes the plan on the first call, and anew where a step has failed, a reviewer wants a change
    or `Plan.replan` was called. Raises `InvalidAnswer`, and `PlanAbandoned` after too many changes.
    """
    planning = role.planning or DEFAULT
    plan = role.rc.plan
    reviewed = planning.each_step
    if plan is None:
        plan = Plan(role.open_session())
        plan.steps = await _written(role, plan, choices, _first(role, choices))
        role.rc.plan = plan
        reviewed = True
    else:
        _note_outcome(role, plan)
    if not plan._reason and reviewed and planning.review is not None:
        plan._reason = await _review(role, plan, planning.review)
    while plan._reason:
        if plan.changes == planning.changes:
            raise PlanAbandoned(
                f"Role {role.name!r} has changed its plan {plan.changes} times, and again: "
                f"{plan._reason}. `planning=Planning(changes=...)` allows more."
            )
        plan.changes += 1
        prompt, plan._reason = _again(role, plan, choices), ""
        plan.steps = [*plan.finished, *await _written(role, plan, choices, prompt)]
        if not plan._reason and planning.review is not None:
            plan._reason = await _review(role, plan, planning.review)
    return plan.next


def begin(role: Role, step: PlannedStep) -> None:
    """The role does `step` now; what it says from here on is the step's result."""
    assert role.rc.plan is not None
    step.status = "begun"
    role.rc.plan._seen = len(role.rc.history)


def _note_outcome(role: Role, plan: Plan) -> None:
    """What came of the step that was begun."""
    for step in plan.steps:
        if step.status == "begun":
            said = [
                message
                for message in role.rc.history[plan._seen :]
                if message.sent_from == role.name and message.cause_by != PLAN_STEP
            ]
            step.status, step.result = "finished", said[-1].content if said else ""
            if said and has_failed(said[-1]):
                step.status = "failed"
                plan._reason = plan._reason or f"step {step.id!r} failed: {step.result}"
            else:
                role.rc.working_memory.clear()


# --- writing ---------------------------------------------------------------------------------

_RULES = (
    "Each step is one of your actions, with an instruction. Steps are done in the order in which "
    "you write them, except that a step waits for those that it depends on."
)


def _first(role: Role, choices: dict[str, str]) -> str:
    news = "\n".join(map(str, role.rc.history))
    return (
        f"Write a plan.\n\nWhat has happened:\n{news}\n\nYour actions:\n{as_lines(choices)}\n\n"
        f"{_RULES}"
    )


def _again(role: Role, plan: Plan, choices: dict[str, str]) -> str:
    finished = "\n".join(f"- {step}" for step in plan.finished) or "(none)"
    return (
        f"The plan must change: {plan._reason}\n\n"
        f"Finished, and not to be done again:\n{finished}\n\n"
        f"Your actions:\n{as_lines(choices)}\n\nWrite the steps that remain. {_RULES} They may "
        f"depend on finished ones."
    )


async def _written(
    role: Role, plan: Plan, choices: dict[str, str], prompt: str
) -> list[PlannedStep]:
    """The steps that the model writes, checked. Raises `InvalidAnswer`."""
    names, done = tuple(choices), {step.id: step for step in plan.finished}
    answer = await role.ask(
        prompt,
        returns=_plan_over(names, first=not plan.changes),
        session=plan.session,
        check=lambda answer: _planned(answer.steps, names, done),
    )
    return _planned(answer.steps, names, done)


@lru_cache(maxsize=64)
def _plan_over(names: tuple[str, ...], *, first: bool) -> Any:
    """The type of a plan. It names the actions, so that a plan with another one is asked again."""
    known: Any = Literal[names]
    step: Any = create_model("Step", __base__=Step, action=(known, ...))
    return create_model("Plan", steps=(list[step], Field(min_length=1 if first else 0)))


def _planned(
    steps: Sequence[Step], names: Sequence[str], done: dict[str, PlannedStep]
) -> list[PlannedStep]:
    """Steps as they are worked off. Raises `ValueError` for those that never could be.

    A finished step that is written once more as it was is left out.
    """
    taken = {step.id for step in steps} | done.keys()
    planned: list[PlannedStep] = []
    for number, step in enumerate(steps, 1):
        name = step.id or next(str(n) for n in count(number) if str(n) not in taken)
        taken.add(name)
        if name in done:
            if (step.action, step.instruction) == (done[name].action, done[name].instruction):
                continue
            raise ValueError(f"step {name!r} is finished; give another step another id")
        if any(name == other.id for other in planned):
            raise ValueError(f"two steps have the id {name!r}")
        after = tuple(dict.fromkeys(step.depends_on))
        place = names.index(step.action)
        planned.append(PlannedStep(name, place, step.action, step.instruction, after))
    known = {step.id for step in planned} | done.keys()
    for planned_step in planned:
        for other in planned_step.depends_on:
            if other not in known:
                raise ValueError(
                    f"step {planned_step.id!r} depends on {other!r}, which is none of the steps "
                    f"{', '.join(map(repr, sorted(known)))}"
                )
    try:
        TopologicalSorter({step.id: step.depends_on for step in planned}).prepare()
    except CycleError as error:
        circle = " -> ".join(map(repr, error.args[1]))
        raise ValueError(f"these steps wait for each other for ever: {circle}") from None
    return planned


# --- reviewing -------------------------------------------------------------------------------


class Verdict(BaseModel):
    """What a reviewer says about a plan."""

    verdict: Literal["accept", "change"]
    comment: str = Field("", description="what must change, and why")


class ReviewPlan(Action):
    """Look at a plan: accept it, or say what must change."""

    reviewer: Any = None

    _plan: Plan | None = None

    async def run(self, *, plan: str) -> str:
        """What must change; nothing if the plan may stay."""
        if not isinstance(self.reviewer, (Model, str)):
            said = self.reviewer(self._plan)
            said = await said if inspect.isawaitable(said) else said
            if said is not None and not isinstance(said, str):
                raise UsageError(
                    f"The function that reviews plans returned {said!r}. Return a str that says "
                    f"what must change, or None."
                )
            return said or ""
        session = self.open_session(model=self.reviewer)
        prompt = f"Review a plan. Accept it, or say what must change.\n\n{plan}"
        answer = await self.ask(prompt, returns=Verdict, session=session)
        if answer.verdict == "accept":
            return ""
        return answer.comment or "the reviewer wants another plan"


async def _review(role: Role, plan: Plan, reviewer: Model | str | PlanReviewer) -> str:
    action = ReviewPlan(reviewer=reviewer)._bound(role)
    action._plan = plan
    told = "\n".join(str(message) for message in role.rc.news)
    comment: str = await action.run(plan=f"What was asked:\n{told}\n\nThe plan:\n{plan}")
    return comment
