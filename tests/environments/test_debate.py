"""`debate` measures whether the team was right, and whether talking helped."""

from __future__ import annotations

import json

from rolecraft import FunctionModel, Limits, ScriptedModel
from rolecraft.environments import Task
from rolecraft.environments.debate import DebateEnvironment
from rolecraft.environments.maths import MathsTasks
from rolecraft.models import ModelCall
from rolecraft.roles.ready.debate import debaters_and_judge
from rolecraft.roles.ready.panel import panel
from rolecraft.scenarios import debate as scenarios
from rolecraft.scenarios.debate import correct
from rolecraft.trajectories import Trajectory

TASK = Task("one", "What is half of one?", {"answer": "1/2"})


def says(answer: str) -> str:
    return json.dumps({"reasoning": "so it is", "answer": answer})


def values(trajectory: Trajectory) -> dict[str, float]:
    named = [s for s in trajectory.signals if s.name.startswith("debate.") and not s.role]
    return {s.name.removeprefix("debate."): s.value for s in named}


async def test_a_panel_that_comes_to_the_right_answer() -> None:
    model = ScriptedModel(
        per_role={
            "Ann": [says("2"), says("0.5")],
            "Ben": [says("1/2"), says("50%")],
            "Cleo": [says("1/2"), says("2")],
        }
    )
    trajectory = await DebateEnvironment(TASK, panel(), model=model).episode()
    assert values(trajectory) == {
        "correct": 1,
        "right_first": 2 / 3,
        "right_last": 2 / 3,
        "corrected": 1,
        "misled": 1,
        "agreement": 2 / 3,
    }
    of_each = {s.role: s.value for s in trajectory.signals if s.name == "debate.right"}
    assert of_each == {"Ann": 1, "Ben": 1, "Cleo": 0}
    assert trajectory.stop_reason == "finished"
    assert correct(trajectory).value == 1


async def test_each_measurement_names_the_answer_that_it_is_of() -> None:
    model = ScriptedModel(per_role={name: [says("2")] for name in ("Ann", "Ben")})
    trajectory = await DebateEnvironment(TASK, panel(2, rounds=1), model=model).episode()
    of_each = [signal for signal in trajectory.signals if signal.name == "debate.right"]
    assert [signal.role for signal in of_each] == ["Ann", "Ben"]
    for signal in of_each:
        assert signal.step is not None
        measured = trajectory.events[signal.step]
        assert (measured.role, measured.content) == (signal.role, "so it is\nAnswer: 2")


async def test_a_debate_that_was_cut_off_is_not_correct() -> None:
    model = ScriptedModel(per_role={name: [says("1/2")] for name in ("Ann", "Ben")})
    env = DebateEnvironment(TASK, panel(2), model=model, limits=Limits(rounds=1))
    trajectory = await env.episode()
    assert values(trajectory) == {
        "correct": 0,
        "right_first": 1,
        "right_last": 1,
        "corrected": 0,
        "misled": 0,
        "agreement": 1,
    }


async def test_a_judges_verdict_is_the_answer_and_has_no_panel_to_measure() -> None:
    verdict = {"answer": "1/2", "confidence": 0.9, "reasons": ["halves"]}
    model = ScriptedModel(
        per_role={"Ann": ["a", "a"], "Ben": ["b", "b"], "Judge": [json.dumps(verdict)]}
    )
    trajectory = await DebateEnvironment(TASK, debaters_and_judge(), model=model).episode()
    assert values(trajectory) == {"correct": 1}


async def test_nobody_but_judge_and_chair_may_end_it() -> None:
    assert DebateEnvironment(TASK, panel()).may_finish == {"Chair"}
    assert DebateEnvironment(TASK, debaters_and_judge()).may_finish == {"Judge"}


def knows(call: ModelCall) -> str:
    """Ann is right from the start; the others follow her."""
    asked = call.messages[-1].content
    answer = SAMPLE.data["answer"] if call.role == "Ann" or "Ann says" in asked else "no idea"
    return says(answer)


def knows_and_judges(call: ModelCall) -> str:
    answer = SAMPLE.data["answer"]
    if call.role != "Judge":
        return f"It is {answer}."
    return json.dumps({"answer": answer, "confidence": 0.9, "reasons": ["both say so"]})


SAMPLE = scenarios.panel.tasks.sample(1, seed=3)[0]


async def test_the_scenarios_play_maths_problems() -> None:
    assert isinstance(scenarios.panel.tasks, MathsTasks)
    one = await scenarios.panel.play(SAMPLE, model=FunctionModel(knows))
    assert one.reward.value == 1
    assert values(one.trajectory)["corrected"] == 2
    other = await scenarios.debate.play(SAMPLE, model=FunctionModel(knows_and_judges))
    assert other.reward.value == 1
