"""The software company writes a small program: straight through, or round until the CTO signs off.

Both forms play the same tasks for the same reward, so that what the cycle brings can be measured.
The paper behind the failure taxonomy did so with ChatDev: 25.0 % of its programs were right as a
DAG, 40.6 % when the work could go back and only the CTO's confirmation ended it (MASFT, table 4).
"""

from __future__ import annotations

from functools import partial

from rolecraft.environments.program_development import ProgramEnvironment, ProgramTasks
from rolecraft.errors import UsageError
from rolecraft.models import Limits
from rolecraft.rewards import Signals, reward
from rolecraft.roles.ready.programmer import Programmer
from rolecraft.roles.ready.software_company import HIERARCHY, cyclic_company
from rolecraft.roles.ready.software_company import software_company as company
from rolecraft.scenarios.scenario import Scenario


@reward
def hidden_tests(signals: Signals) -> float:
    """The share of the hidden tests that the program passes, from 0 to 1.

    Raises `UsageError` where no hidden test was run: then nothing says how good a program is.
    """
    passed, failed = signals["tests.passed"], signals["tests.failed"]
    if not passed + failed:
        raise UsageError("The task has no hidden tests, so that no share of them passes.")
    return passed / (passed + failed)


ROUNDS = 30
"""Bound of the cyclic form, where only the head of the company may end the run.

The way to the first review takes 7 rounds, each way round 3 or 5. A run that reaches it ends as
`rounds`.
"""


programmer = Scenario(
    name="programmer",
    team=lambda: [Programmer()],
    environment=ProgramEnvironment,
    tasks=ProgramTasks(),
    reward=hidden_tests,
)
"""One programmer alone, on the same tasks for the same reward."""

software_company = Scenario(
    name="software_company",
    team=company,
    environment=ProgramEnvironment,
    tasks=ProgramTasks(),
    reward=hidden_tests,
    alone=programmer,
)

software_company_cyclic = Scenario(
    name="software_company_cyclic",
    team=cyclic_company,
    environment=partial(
        ProgramEnvironment, limits=Limits(rounds=ROUNDS), may_finish=HIERARCHY.heads
    ),
    tasks=ProgramTasks(),
    reward=hidden_tests,
    alone=programmer,
)
