"""A panel answers, sees each other's answers, answers again, and is counted."""

from __future__ import annotations

import json

import pytest

from rolecraft import ScriptedModel, Team
from rolecraft.environments import Run
from rolecraft.errors import UsageError
from rolecraft.roles.ready.panel import as_vote, panel


def says(answer: str, reasoning: str = "") -> str:
    return json.dumps({"reasoning": reasoning or f"it is {answer}", "answer": answer})


def script(**answers: list[str]) -> ScriptedModel:
    return ScriptedModel(per_role={name: map(says, given) for name, given in answers.items()})


def counted(run: Run) -> tuple[str, object]:
    assert run.message is not None
    return run.message.content, run.message.metadata


async def test_the_last_answers_are_counted_and_that_ends_the_debate() -> None:
    model = script(Ann=["4", "5"], Ben=["5", "5"], Cleo=["6", "6"])
    run = await Team(panel(), model=model).run("2 + 3?")
    assert counted(run) == ("5", {"won": True, "votes": 2, "of": 3})
    assert run.stop == "finished"
    assert run.trajectory.usage.calls == 6


async def test_first_everyone_answers_alone_and_then_having_seen_the_others() -> None:
    model = script(Ann=["4", "5"], Ben=["5", "5"], Cleo=["6", "6"])
    await Team(panel(), model=model).run("2 + 3?")
    first, second = (c.messages[-1].content for c in model.calls if c.role == "Ann")
    assert "2 + 3?" in first
    assert "says" not in first.split("JSON")[0]
    assert "You said:\nit is 4\nAnswer: 4" in second
    assert "Ben says:\nit is 5\nAnswer: 5\n\nCleo says:\nit is 6\nAnswer: 6" in second


@pytest.mark.parametrize("rounds", [1, 2, 3])
async def test_what_a_panelist_sees_does_not_depend_on_the_schedule(rounds: int) -> None:
    def answers(name: str) -> list[str]:
        return [f"{name}{n}" for n in range(rounds)]

    prompts = {}
    for schedule in ("rounds", "sequential", "free"):
        model = script(Ann=answers("a"), Ben=answers("b"), Cleo=answers("c"))
        team = Team(panel(rounds=rounds), model=model, schedule=schedule)
        run = await team.run("2 + 3?")
        assert run.stop == "finished"
        prompts[schedule] = {
            name: [c.messages[-1].content for c in model.calls if c.role == name]
            for name in ("Ann", "Ben", "Cleo")
        }
    assert prompts["rounds"] == prompts["sequential"] == prompts["free"]
    assert all(len(asked) == rounds for asked in prompts["rounds"].values())


async def test_a_second_question_is_a_debate_of_its_own() -> None:
    model = script(Ann=["1"] * 2 + ["7"] * 2, Ben=["1"] * 2 + ["7"] * 2)
    team = Team(panel(2), model=model)
    await team.run("1?")
    run = await team.run("7?")
    assert counted(run) == ("7", {"won": True, "votes": 2, "of": 2})
    assert all("1?" not in call.messages[-1].content for call in model.calls[4:])


async def test_a_tie_goes_to_the_answer_that_was_heard_first() -> None:
    run = await Team(panel(2, rounds=1), model=script(Ann=["4"], Ben=["5"])).run("2 + 3?")
    assert counted(run) == ("4", {"won": True, "votes": 1, "of": 2})


async def test_a_panel_that_says_nothing_has_no_answer() -> None:
    run = await Team(panel(2, rounds=1), model=script(Ann=[""], Ben=[" "])).run("2 + 3?")
    assert counted(run) == ("The panel has no answer.", {"won": False, "votes": 0, "of": 2})


@pytest.mark.parametrize(
    ("one", "other"), [("1/2", "0.5"), ("50%", "½"), ("1,000", "1000"), ("Paris.", "paris")]
)
def test_answers_that_mean_the_same_are_one_vote(one: str, other: str) -> None:
    assert as_vote(one) == as_vote(other)


def test_answers_that_differ_are_two_votes() -> None:
    assert as_vote("1/3") != as_vote("0.333")
    assert as_vote("") is None


@pytest.mark.parametrize(("size", "rounds"), [(1, 2), (8, 2), (3, 0)])
def test_a_panel_has_several_members_and_at_least_one_round(size: int, rounds: int) -> None:
    with pytest.raises(UsageError, match="from 2 to 7"):
        panel(size, rounds=rounds)
