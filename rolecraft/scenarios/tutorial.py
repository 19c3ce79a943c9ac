"""The `tutorial` scenarios: an author and a reviewer write a tutorial, in English or Chinese."""

from __future__ import annotations

from rolecraft.environments.tutorial import TutorialEnvironment, TutorialTasks
from rolecraft.rewards import Signals, reward
from rolecraft.roles import Role
from rolecraft.roles.ready.tutorial_assistant import Language, ReviewedTutorialAssistant
from rolecraft.roles.remedies.review import Reviewer, ReviewWork
from rolecraft.scenarios.scenario import Scenario

CRITERIA = (
    "every chapter is there and keeps what its title promises; it is as long as was asked for; "
    "each example works as it stands; nothing is false; nothing is needed before it is explained"
)
IN_LANGUAGE = 0.6
"""The share of words from which a text counts as written in a language: names of programs and the
like stay in Latin letters also in Chinese."""


@reward
def complete(signals: Signals) -> float:
    """The share of the asked chapters that was written; 0 in the wrong language or with links
    that lead nowhere. Chapters beyond those that were asked for count against it."""
    asked, written = signals["tutorial.chapters_asked"], signals["tutorial.chapters_written"]
    sound = signals["tutorial.broken_links"] == 0 and signals["tutorial.in_language"] >= IN_LANGUAGE
    return max(0.0, 1 - abs(asked - written) / asked) if sound else 0.0


def tutorial_team(language: Language = "English", *, revisions: int = 2) -> list[Role]:
    """An author, and a reviewer who reads the document before it goes out."""
    return [
        ReviewedTutorialAssistant(language=language, revisions=revisions),
        Reviewer(actions=[ReviewWork(CRITERIA)]),
    ]


def _in(language: Language, name: str) -> Scenario:
    return Scenario(
        name=name,
        team=lambda: tutorial_team(language),
        environment=TutorialEnvironment,
        tasks=TutorialTasks(language),
        reward=complete,
    )


tutorial = _in("English", "tutorial")
tutorial_zh = _in("Chinese", "tutorial_zh")
