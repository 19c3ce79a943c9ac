"""The setting of an evaluation: it reaches the models, and what it leaves open stays open."""

from __future__ import annotations

import pytest

from rolecraft import Action, FunctionModel, Limits, Role
from rolecraft.environments import Task
from rolecraft.errors import UsageError
from rolecraft.experiments.setting import Setting, limits_of
from rolecraft.messages import Message
from rolecraft.models import ModelCall, Sampling
from rolecraft.models.tiny import tiny_model
from rolecraft.scenarios.maths_chat import maths_chat


def test_a_setting_is_the_same_after_json_and_knows_no_other_keys() -> None:
    setting = Setting(attempts=4, temperature=0.0, sequence_length=4096)
    assert Setting.from_dict(setting.to_dict()) == setting
    with pytest.raises(UsageError, match="no `heat`"):
        Setting.from_dict({"heat": 1})
    assert setting.identity == "sequence_length 4096, temperature 0"


@pytest.mark.parametrize(
    "wrong",
    [{"attempts": 0}, {"temperature": -1.0}, {"max_tokens": 1.5}, {"turns": True}, {"calls": "3"}],
)
def test_what_cannot_be_names_itself(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"Setting.{next(iter(wrong))}="):
        Setting(**wrong)  # type: ignore[arg-type]


async def test_sampling_holds_where_a_call_says_nothing_itself() -> None:
    asked: list[Sampling] = []

    def answer(call: ModelCall) -> str:
        asked.append(call.sampling)
        return "yes"

    model = Setting(temperature=0.3, max_tokens=7).model(FunctionModel(answer))
    session = model.session("Role")
    await session.generate([Message("a")])
    await session.generate([Message("b")], sampling=Sampling(temperature=1.0))
    assert [(each.temperature, each.max_tokens) for each in asked] == [(0.3, 7), (1.0, 7)]


@pytest.mark.slow
async def test_a_local_model_gets_it_too() -> None:
    model = Setting(max_tokens=3).model(tiny_model(("a", "b"), seed=0))
    session = model.session("Role")
    completion = await session.generate([Message("a b")])
    assert completion.tokens is not None
    assert len(completion.tokens.sampled) <= 3


def test_the_limits_of_the_scenario_hold_where_the_setting_is_silent() -> None:
    assert limits_of(maths_chat) == Limits(rounds=30)
    assert Setting().limits(maths_chat) is None
    assert Setting(calls=5).limits(maths_chat) == Limits(rounds=30, calls=5)
    assert Setting(turns=2).limits(maths_chat) == Limits(rounds=2)
    assert "turns of a role: the scenario's own, 30" in Setting().in_words([maths_chat])


async def test_the_sampling_of_a_setting_is_in_the_record_of_a_run() -> None:
    class Answer(Action):
        """Answer."""

        async def run(self) -> str:
            return await self.ask("2 + 2?")

    from rolecraft.environments.maths import MathsEnvironment

    role = Role(name="P", actions=[Answer])
    model = Setting(temperature=0.25).model(FunctionModel(lambda call: r"\boxed{4}"))
    task = Task("one", "2 + 2?", {"answer": "4"})
    trajectory = await MathsEnvironment(task, [role], answers="P", model=model).episode()
    (call,) = trajectory.of("model_call")
    assert "0.25" in str(call.data)
