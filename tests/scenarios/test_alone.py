"""What a team has to beat: one agent on the same tasks, in the same environment, for the same
reward."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial

import pytest

from rolecraft import ScriptedModel
from rolecraft.environments.program_development import PROGRAMS, ProgramEnvironment
from rolecraft.errors import UsageError
from rolecraft.models import ModelCall
from rolecraft.models.doubles import FunctionModel
from rolecraft.rewards import Signals
from rolecraft.sandboxes import LocalProcess
from rolecraft.scenarios import Scenario
from rolecraft.scenarios.maths_chat import maths_team, maths_voting
from rolecraft.scenarios.software_company import (
    hidden_tests,
    programmer,
    software_company,
    software_company_cyclic,
)
from rolecraft.trajectories.events import Signal


@pytest.mark.parametrize(
    "team", [maths_team, maths_voting, software_company, software_company_cyclic]
)
def test_who_works_alone_has_the_tasks_and_the_reward_of_the_team(team: Scenario) -> None:
    alone = team.alone
    assert alone is not None
    assert alone.tasks.sample(5, split="test") == team.tasks.sample(5, split="test")
    assert alone.reward is team.reward
    kinds = [getattr(each.environment, "func", each.environment) for each in (alone, team)]
    assert kinds[0] is kinds[1]


async def test_in_maths_chat_one_role_asks_a_model() -> None:
    alone = maths_team.alone
    assert alone is not None
    asked: list[str] = []

    def answer(call: ModelCall) -> str:
        asked.append(call.role)
        return r"\boxed{1}"

    await alone.play(alone.tasks.sample(1)[0], model=FunctionModel(answer))
    assert set(asked) == {"Assistant"}


async def test_a_programmer_hands_in_what_the_second_reading_leaves() -> None:
    scenario = replace(programmer, environment=partial(ProgramEnvironment, sandbox=LocalProcess()))
    (task,) = scenario.tasks.sample(1, split="test")
    solve = PROGRAMS[task.data["program"]].solve
    program = (
        f"{inspect.getsource(solve)}\nimport sys\nsys.stdout.write({solve.__name__}"
        f"(sys.stdin.read()))"
    )
    model = ScriptedModel(["```python\nprint('a stub')\n```", f"```python\n{program}\n```"])
    episode = await scenario.play(task, model=model)
    assert episode.reward.value == 1.0
    assert [event.role for event in episode.trajectory.of("message")][1:] == ["Programmer"] * 2


def test_a_task_without_hidden_tests_is_no_success() -> None:
    none = Signals([Signal("tests.passed", 0.0), Signal("tests.failed", 0.0)])
    with pytest.raises(UsageError, match="no hidden tests"):
        hidden_tests(none)
