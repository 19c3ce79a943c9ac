"""A role acts only when it is sure enough, and otherwise gathers more before it acts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Action, FunctionModel, Message, Role, ScriptedModel, Team
from rolecraft.errors import UsageError
from rolecraft.models import ModelCall
from rolecraft.roles.remedies import ActsWhenSure, Adaptive, Answer, Estimate
from rolecraft.trajectories import Trajectory


def estimate(answer: str, confidence: float, missing: str = "") -> str:
    return json.dumps({"answer": answer, "confidence": confidence, "missing": missing})


class Look(Action):
    """Look outside."""

    async def run(self) -> str:
        return "The road is wet."


class Guess(ActsWhenSure):
    gather = [Look]
    threshold = 0.8


def done(trajectory: Trajectory) -> list[str]:
    return [event.data["action"] for event in trajectory.of("action")]


def thoughts(trajectory: Trajectory) -> list[str]:
    return [event.content for event in trajectory.of("thought")]


async def test_sure_enough_it_acts_at_once_and_gathers_nothing() -> None:
    role = Guess(model=ScriptedModel([estimate("Rain", 0.8)]))
    message = await role.run("Does it rain?")
    assert str(message) == "Guess: Rain"
    assert done(role.trajectory) == ["Decide", "Answer"]
    assert thoughts(role.trajectory) == ["0.80 sure, acts from 0.80: acts"]


async def test_below_the_threshold_it_gathers_and_decides_again_on_what_it_found() -> None:
    model = ScriptedModel([estimate("Rain", 0.79), estimate("Rain", 0.95)])
    role = Guess(model=model)
    await role.run("Does it rain?")
    assert done(role.trajectory) == ["Decide", "Look", "Decide", "Answer"]
    first, second = (call.messages[-1].content for call in model.calls)
    assert "The road is wet." not in first
    assert "The road is wet." in second
    assert "0.79" not in second  # its own estimate is no evidence


async def test_still_unsure_after_its_gatherings_it_says_so_and_what_is_missing() -> None:
    model = ScriptedModel([estimate("Rain", 0.5, "a look at the sky")] * 3)
    role = Guess(model=model, gatherings=2)
    message = await role.run("Does it rain?")
    assert message is not None
    assert message.content == ("I am not sure enough to answer. What is missing: a look at the sky")
    assert message.metadata == {"abstained": True}
    assert done(role.trajectory).count("Look") == 2
    model.assert_complete()


async def test_a_role_that_must_answer_answers_at_the_end_all_the_same() -> None:
    role = Guess(model=ScriptedModel([estimate("Rain", 0.5)] * 2), gatherings=1, unsure=[Answer])
    message = await role.run("Does it rain?")
    assert str(message) == "Guess: Rain"
    assert thoughts(role.trajectory)[-1] == "0.50 sure, acts from 0.80: stays unsure"


async def test_with_nothing_to_gather_it_is_unsure_at_once() -> None:
    role = ActsWhenSure(model=ScriptedModel([estimate("Rain", 0.5)]))
    message = await role.run("Does it rain?")
    assert message is not None
    assert message.metadata == {"abstained": True}


async def test_an_estimate_is_recorded_and_told_to_nobody() -> None:
    class Listen(Action):
        async def run(self, history: Any) -> str:
            return f"heard {[message.content for message in history]}"

    listener = Role(name="Listener", actions=[Listen], watch=["rolecraft.roles.remedies", Answer])
    team = Team(
        [Guess(), listener], model=ScriptedModel([estimate("Sun", 0.2), estimate("Rain", 0.9)])
    )
    run = await team.run("Does it rain?")
    assert run.message is not None
    assert run.message.content == "heard ['Rain']"
    told = [e.to for e in run.trajectory.of("message") if "confidence" in e.content]
    assert told == [("<none>",), ("<none>",)]


class Ask(Action):
    """Ask the colleague."""

    async def run(self) -> Message:
        return Message("Is the road wet?", send_to="Colleague")


class Reply(Action):
    async def run(self, history: Any) -> Message:
        return Message("Very wet.", send_to=history[-1].sent_from)


async def test_a_question_to_a_colleague_is_waited_for_and_bounded() -> None:
    model = ScriptedModel([estimate("Rain", 0.3), estimate("Rain", 0.4), estimate("Rain", 0.5)])
    asker = ActsWhenSure(name="Asker", gather=[Ask], gatherings=2)
    colleague = Role(name="Colleague", actions=[Reply], watch=[])
    run = await Team([asker, colleague], model=model).run("Does it rain?")
    said = [
        (e.time, e.role, e.content) for e in run.trajectory.of("message") if e.to[0] != "<none>"
    ]
    assert said == [
        (0, "user", "Does it rain?"),
        (1, "Asker", "Is the road wet?"),
        (2, "Colleague", "Very wet."),
        (3, "Asker", "Is the road wet?"),
        (4, "Colleague", "Very wet."),
        (5, "Asker", "I am not sure enough to answer."),
    ]
    assert run.stop == "idle"


async def test_a_new_question_has_all_its_gatherings_again() -> None:
    model = ScriptedModel([estimate("Rain", 0.5)] * 4)
    role = Guess(model=model, gatherings=1)
    await role.run("Does it rain?")
    await role.run("And now?")
    assert done(role.trajectory) == ["Decide", "Look", "Decide", "Abstain"] * 2


async def test_an_action_that_gives_no_estimate_is_named() -> None:
    role = ActsWhenSure(name="Ann", actions=[Look])
    with pytest.raises(UsageError, match=r"`actions` of role 'Ann' .* return an `Estimate`"):
        await role.run("Does it rain?")


async def test_roles_share_no_action_objects() -> None:
    class Note(Action):
        notes: list[str] = []

        async def run(self) -> str:
            self.notes.append("seen")
            return str(len(self.notes))

    class Noting(ActsWhenSure):
        gather = [Note()]
        gatherings = 1

    for _ in range(2):
        role = Noting(model=ScriptedModel([estimate("a", 0.1), estimate("a", 0.9)]))
        await role.run("go")
        assert role.rc.history[-3].content == "1"


# --- thresholds ------------------------------------------------------------------------------


def test_a_fixed_threshold_does_not_learn() -> None:
    role = ActsWhenSure(threshold=0.7)
    role.learn(wrong=True)
    assert role.threshold == 0.7


def test_an_adaptive_threshold_rises_after_a_wrong_act_and_falls_a_little_otherwise() -> None:
    role = ActsWhenSure(threshold=0.5, adapt=Adaptive(error_rate=0.1, step=0.1))
    role.learn(wrong=True)
    assert role.threshold == pytest.approx(0.59)
    role.learn(wrong=False)
    assert role.threshold == pytest.approx(0.58)


@given(
    decisions=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=300),
    error_rate=st.floats(0.01, 0.5),
    step=st.floats(0.01, 1),
    start=st.floats(0, 1),
)
def test_whatever_happens_the_share_of_wrong_acts_stays_below_the_stated_bound(
    decisions: list[tuple[float, bool]], error_rate: float, step: float, start: float
) -> None:
    adapt, threshold, wrong_acts = Adaptive(error_rate=error_rate, step=step), start, 0
    for confidence, right in decisions:
        wrong = confidence >= threshold and not right
        wrong_acts += wrong
        threshold = adapt.next(threshold, wrong=wrong)
    n = len(decisions)
    assert wrong_acts / n <= error_rate + (1 + step - start) / (step * n) + 1e-9


async def test_a_role_that_is_too_sure_of_itself_learns_to_hold_back() -> None:
    """Its model says 0.9 and is right half of the time: only a surer answer should go out."""

    def overconfident(call: ModelCall) -> str:
        questions = [line for line in call.messages[-1].content.splitlines() if "question" in line]
        easy = "easy" in questions[-1]
        return estimate("right" if easy else "wrong", 0.99 if easy else 0.9)

    role = ActsWhenSure(threshold=0.5, adapt=Adaptive(error_rate=0.05, step=0.2))
    role.model = FunctionModel(overconfident)
    answered = {"easy": 0, "hard": 0}
    for number in range(60):
        kind = "easy" if number % 2 else "hard"
        message = await role.run(f"{kind} question")
        assert message is not None
        acted = not message.metadata
        answered[kind] += acted
        role.learn(wrong=acted and kind == "hard")
    assert answered["easy"] > 3 * answered["hard"]


class HearResult(Action):
    """Hear how it came out."""

    async def run(self) -> str:
        self.role.learn(wrong=True)
        return f"From now on I act from {self.role.threshold:.3f}."


async def test_what_a_role_learns_in_an_action_is_known_to_a_recovered_one() -> None:
    def team(*script: str) -> Team:
        pupil = Guess(adapt=Adaptive(step=0.1), act=[Answer, HearResult], gatherings=1)
        return Team([pupil], model=ScriptedModel(script))

    run = await team(estimate("Rain", 0.9)).run("Does it rain?")
    assert run.message is not None
    assert run.message.content == "From now on I act from 0.890."
    recovered = team(*[estimate("Rain", 0.85)] * 2)
    await recovered.recover(run)
    again = await recovered.run("And now?")
    assert thoughts(again.trajectory)[-2:] == [
        "0.85 sure, acts from 0.89: gathers more",
        "0.85 sure, acts from 0.89: stays unsure",
    ]


@pytest.mark.parametrize("wrong", [{"error_rate": 0.0}, {"error_rate": 1.0}, {"step": 0.0}])
def test_rates_outside_of_their_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        Adaptive(**wrong)


def test_a_confidence_is_a_probability() -> None:
    with pytest.raises(ValueError, match="less than or equal to 1"):
        Estimate(answer="a", confidence=80)


@pytest.mark.parametrize("wrong", [{"threshold": 80}, {"threshold": -0.1}, {"gatherings": -1}])
def test_a_role_that_could_never_be_sure_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="a threshold is a probability"):
        Guess(**wrong)
