"""A researcher answers questions from what it reads.

    web_research = scenario()       # the example questions and their corpus: no web is needed
    mine = scenario(ResearchTasks(load_frames("frames.tsv").questions), web=..., judge="openai/o3")

The reward is 0.8 for the right answer, and up to 0.1 each for claims that stand in pages which were
read and for a chain of reasoning that holds. So a wrong answer never has more than 0.2, whatever
evidence it comes with and whatever a judge thinks of it. Where the judge or the web was down there
is no reward at all (`MissingSignal`), which is not 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rolecraft.environments.task import Task, TaskSource
from rolecraft.environments.web_research import (
    Researcher,
    ResearchJudge,
    ResearchTasks,
    Web,
    WebResearchEnvironment,
)
from rolecraft.environments.web_research.examples import example_web, examples, questions
from rolecraft.environments.web_research.examples.stand_ins import (
    stand_in_judge,
    stand_in_researcher,
)
from rolecraft.models.base import Model
from rolecraft.rewards import Signals, reward
from rolecraft.roles.role import Role
from rolecraft.scenarios.scenario import Scenario


@reward
def correct(signals: Signals) -> float:
    """1 if the answer is right, else 0."""
    return signals["answer.correct"]


@reward
def information(signals: Signals) -> float:
    """How well pages that were read carry what the answer claims, from 0 to 1."""
    return signals["information.quality"]


@reward
def reasoning(signals: Signals) -> float:
    """The share of the chain of reasoning that holds, from 0 to 1."""
    return signals["reasoning.chain"]


REWARD = 0.8 * correct + 0.1 * information + 0.1 * reasoning


def scenario(
    tasks: TaskSource | None = None,
    *,
    web: Web | None = None,
    model: Model | str | None = None,
    judge: ResearchJudge | Model | str | None = None,
    name: str = "web_research",
    **options: Any,
) -> Scenario:
    """A scenario with one `Researcher`, who asks `model` where nobody names another.

    `tasks` and `web` are the examples and their corpus unless given. Without a `judge` only answers
    that equal the right one, word for word or number for number, are right. `options` go to the
    `WebResearchEnvironment` (`limits`, …).
    """

    def team() -> Sequence[Role]:
        return [Researcher(model=model)]

    def environment(task: Task, roles: Iterable[Role], **more: Any) -> WebResearchEnvironment:
        given = {"web": web or example_web(), "judge": judge, **options, **more}
        return WebResearchEnvironment(task, roles, **given)

    return Scenario(
        name=name,
        team=team,
        environment=environment,
        tasks=tasks or ResearchTasks(questions(), held_out=0.4),
        reward=REWARD,
    )


web_research = scenario()


def rehearsal() -> Scenario:
    """The same with test doubles for the researcher and for the judge: no model is needed."""
    return scenario(
        model=stand_in_researcher(examples().values()), judge=stand_in_judge(), name="rehearsal"
    )
