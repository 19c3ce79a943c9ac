"""Maths chat: the three published forms, and one with structural remedies; all on one task family.

The reward is 1 for the exact answer and 0 for any other. `FORMS` has them by name:

- `chat`: student and assistant;
- `prompt`: the same with an improved prompt that has a section on verification;
- `team`: solver, coder and verifier, where only the verifier may end the run;
- `voting`: that team, where the solver's proposal is what most of three samples say and the coder
  writes a program again, at most twice, until it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rolecraft.environments.maths import MathsEnvironment, MathsTasks
from rolecraft.models.budget import Limits
from rolecraft.rewards import Signals, reward
from rolecraft.roles.ready.maths_chat import solver_coder_verifier, student_and_assistant
from rolecraft.roles.role import Role
from rolecraft.sandboxes import Sandbox
from rolecraft.scenarios.scenario import Scenario

ROUNDS = 30
"""A run that has no answer by then ends without one."""


@reward
def correct(signals: Signals) -> float:
    """1 if the answer has exactly the right value, else 0."""
    return signals["answer.correct"]


def chat(*, improved: bool = False, sandbox: Sandbox | None = None) -> Scenario:
    """Student and assistant; programs run in `sandbox`, a `Bubblewrap` unless given."""
    return _scenario(
        "maths_prompt" if improved else "maths_chat",
        partial(student_and_assistant, improved=improved, sandbox=sandbox),
        answers="Assistant",
        may_finish=["Student"],
    )


def team(*, votes: int = 1, tries: int = 1, sandbox: Sandbox | None = None) -> Scenario:
    """Solver, coder and verifier; see `solver_coder_verifier`."""
    return _scenario(
        "maths_team" if votes == tries == 1 else "maths_voting",
        partial(solver_coder_verifier, votes=votes, tries=tries, sandbox=sandbox),
        alone=chat(sandbox=sandbox),  # the student asks no model: the assistant works alone
        answers="Verifier",
        may_finish=["Verifier"],
        about={"goal": {"answer": "Verifier", "verify": "answer"}},
    )


def _scenario(
    name: str,
    team: Callable[[], Sequence[Role]],
    *,
    alone: Scenario | None = None,
    **options: Any,
) -> Scenario:
    return Scenario(
        name=name,
        team=team,
        environment=partial(MathsEnvironment, limits=Limits(rounds=ROUNDS), **options),
        tasks=MathsTasks(),
        reward=correct,
        alone=alone,
    )


FORMS: dict[str, Callable[..., Scenario]] = {
    "chat": chat,
    "prompt": partial(chat, improved=True),
    "team": team,
    "voting": partial(team, votes=3, tries=3),
}
"""From a form's name to what makes its scenario; each takes `sandbox`."""

maths_chat = chat()
maths_prompt = chat(improved=True)
maths_team = team()
maths_voting = team(votes=3, tries=3)
