"""Debaters answer each other; a judge ends the debate when it is sure."""

from __future__ import annotations

import json

import pytest

from rolecraft import Action, Environment, ScriptedModel, Team
from rolecraft.actions import Finish
from rolecraft.environments import Run
from rolecraft.errors import UnknownName, UsageError
from rolecraft.roles.ready.debate import Debater, Judge, debaters_and_judge


def verdict(answer: str, confidence: float, missing: str = "") -> str:
    return json.dumps(
        {"answer": answer, "confidence": confidence, "missing": missing, "reasons": ["because"]}
    )


ANN = [f"a{n}" for n in range(1, 9)]
BEN = [f"b{n}" for n in range(1, 9)]


def said(run: Run) -> list[tuple[int, str, str]]:
    """When, who, what; without what was told to nobody."""
    messages = [e for e in run.trajectory.of("message") if e.to != ("<none>",)]
    return [(e.time, e.role, e.content) for e in messages]


def model(*verdicts: str) -> ScriptedModel:
    return ScriptedModel(per_role={"Ann": ANN, "Ben": BEN, "Judge": verdicts})


async def test_debaters_speak_to_each_other_and_the_judge_until_it_is_sure() -> None:
    team = Team(
        debaters_and_judge(["tea", "coffee"], exchanges=3),
        model=model(verdict("tea", 0.5, "what it costs"), verdict("tea", 0.9)),
    )
    run = await team.run("Tea or coffee?")
    assert said(run) == [
        (0, "user", "Tea or coffee?"),
        (1, "Ann", "a1"),
        (1, "Ben", "b1"),
        (2, "Ann", "a2"),
        (2, "Ben", "b2"),
        (2, "Judge", "Still open: what it costs"),
        (3, "Ann", "a3"),
        (3, "Ben", "b3"),
        (3, "Judge", "tea"),
    ]
    assert run.stop == "finished"
    assert run.message is not None
    assert run.message.metadata == {"sure": True, "confidence": 0.9}


async def test_each_hears_the_others_and_knows_its_own_position() -> None:
    answers = model(verdict("tea", 0.5, "what it costs"), verdict("tea", 0.9))
    await Team(debaters_and_judge(["tea", "coffee"]), model=answers).run("Tea or coffee?")
    last = [call for call in answers.calls if call.role == "Ann"][-1].messages[-1].content
    assert "user: Tea or coffee?" in last
    assert "Ben: b2" in last
    assert "Judge: Still open: what it costs" in last
    assert "You hold: tea." in last
    assert "0.5" not in last  # what the judge estimates is told to nobody


async def test_the_judge_weighs_the_question_and_all_that_was_said() -> None:
    answers = model(verdict("tea", 0.9))
    await Team(debaters_and_judge(["tea", "coffee"]), model=answers).run("Tea or coffee?")
    weighed = next(call for call in answers.calls if call.role == "Judge").messages[-1].content
    assert "user: Tea or coffee?\n\nAnn: a1\n\nBen: b1" in weighed


async def test_started_with_one_of_two_they_speak_in_turn() -> None:
    team = Team(
        debaters_and_judge(["tea", "coffee"]),
        model=model(verdict("tea", 0.5), verdict("tea", 0.9)),
    )
    run = await team.run("Tea or coffee?", send_to=["Ann", "Judge"])
    speakers = [role for _, role, content in said(run) if content[0] in "ab"]
    assert speakers == ["Ann", "Ben", "Ann", "Ben", "Ann"]
    assert [content for _, role, content in said(run) if role == "Judge"][-1] == "tea"


async def test_after_the_last_exchange_the_judge_declares_and_says_that_it_is_not_sure() -> None:
    answers = model(*[verdict("tea", 0.6)] * 2)
    run = await Team(debaters_and_judge(["tea", "coffee"], exchanges=2), model=answers).run("?")
    assert run.stop == "finished"
    assert run.message is not None
    assert run.message.content == "tea"
    assert run.message.metadata == {"sure": False, "confidence": 0.6}
    statements = [e for e in run.trajectory.of("message") if e.role in ("Ann", "Ben")]
    assert len(statements) == 4


async def test_three_debaters_hear_all_others() -> None:
    answers = ScriptedModel(
        per_role={"Ann": ANN, "Ben": BEN, "Cleo": ["c1", "c2"], "Judge": [verdict("tea", 0.9)]}
    )
    await Team(debaters_and_judge(["tea", "coffee", "milk"]), model=answers).run("?")
    second = [call for call in answers.calls if call.role == "Cleo"][-1].messages[-1].content
    assert "Ann: a1\n\nBen: b1" in second


async def test_only_the_judge_may_end_a_debate() -> None:
    """A debater that wants to have the last word does not get it."""

    class StormOut(Finish):
        async def run(self, history: object) -> str:
            return "This debate is over!"

    class Sore(Debater):
        actions: list[type[Action]] = [StormOut]

    env = Environment(
        [
            Sore(name="Ann", tells=["Ben", "Judge"]),
            Debater(name="Ben", tells=["Ann", "Judge"]),
            Judge(debaters=["Ben"]),
        ],
        model=model(verdict("tea", 0.9)),
        may_finish=["Judge"],
    )
    run = await Team(env=env).run("Tea or coffee?")
    assert run.message is not None
    assert run.message.content == "tea"


async def test_a_second_debate_of_the_same_team_knows_nothing_of_the_first() -> None:
    answers = ScriptedModel(
        per_role={
            "Ann": ANN,
            "Ben": BEN,
            "Judge": [verdict("tea", 0.1), verdict("tea", 0.9), verdict("cats", 0.9)],
        }
    )
    team = Team(debaters_and_judge(["first", "second"], exchanges=2), model=answers)
    await team.run("Tea or coffee?")
    run = await team.run("Cats or dogs?")
    assert run.message is not None
    assert run.message.content == "cats"
    prompt = answers.calls[-1].messages[-1].content
    assert "Cats or dogs?" in prompt
    assert "Tea" not in prompt


async def test_a_judge_gives_one_verdict_also_where_the_others_go_on() -> None:
    """Nobody may end this run, so the debaters have their say to the end."""
    team = Team(
        debaters_and_judge(["tea", "coffee"]), model=model(verdict("tea", 0.9)), may_finish=[]
    )
    run = await team.run("Tea or coffee?")
    assert run.stop == "idle"
    assert [content for _, role, content in said(run) if role == "Judge"] == ["tea"]
    assert [content for _, role, content in said(run) if role == "Ann"] == ["a1", "a2", "a3"]


async def test_without_a_judge_it_ends_when_all_have_said_their_say() -> None:
    debaters = [
        Debater(name="Ann", tells=[Debater], statements=2),
        Debater(name="Ben", tells=[Debater], statements=2),
    ]
    run = await Team(debaters, model=ScriptedModel(per_role={"Ann": ANN, "Ben": BEN})).run("?")
    assert [content for _, _, content in said(run)] == ["?", "a1", "b1", "a2", "b2"]
    assert run.stop == "idle"


async def test_a_judge_that_nobody_hired_is_named() -> None:
    debaters = [Debater(name="Ann"), Debater(name="Ben")]
    with pytest.raises(UnknownName, match="Receiver 'Judge' is not known"):
        await Team(debaters, model=ScriptedModel(["a", "b"])).run("?")


@pytest.mark.parametrize("positions", [[], ["tea"], ["x"] * 7])
def test_a_debate_has_at_least_two_sides(positions: list[str]) -> None:
    with pytest.raises(UsageError, match="from 2 to 6"):
        debaters_and_judge(positions)


def test_a_judge_says_whom_it_waits_for() -> None:
    with pytest.raises(UsageError, match="missing `debaters`"):
        Judge()
