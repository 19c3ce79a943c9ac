"""The scenarios `panel` and `debate`: a panel, or debaters before a judge, on the same questions.

Questions have known answers, so that one can measure whether talking about them helped.
"""

from __future__ import annotations

from rolecraft.environments.debate import DebateEnvironment
from rolecraft.environments.maths import MathsTasks
from rolecraft.rewards import Signals, reward
from rolecraft.roles.ready.debate import debaters_and_judge
from rolecraft.roles.ready.panel import panel as panel_and_chair
from rolecraft.scenarios.scenario import Scenario


@reward
def correct(signals: Signals) -> float:
    """1 if the answer that ended the debate is right, else 0."""
    return signals["debate.correct"]


panel = Scenario(
    name="panel",
    team=panel_and_chair,
    environment=DebateEnvironment,
    tasks=MathsTasks(),
    reward=correct,
)

debate = Scenario(
    name="debate",
    team=debaters_and_judge,
    environment=DebateEnvironment,
    tasks=MathsTasks(),
    reward=correct,
)
