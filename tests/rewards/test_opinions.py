"""A judge's opinion is bounded, marked as not grounded, and nothing where it cannot be read."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rolecraft import FunctionModel, ScriptedModel
from rolecraft.environments.relay import RelayTasks
from rolecraft.errors import ModelUnavailable, RealModelForbidden, UsageError
from rolecraft.models import ModelCall
from rolecraft.rewards import (
    Gate,
    Opinion,
    Ranking,
    UnsafeReward,
    ask_judges,
    asking,
    check_reward,
    rank,
    signal,
)
from rolecraft.rewards.asking import MOST_SHOWN, text_of
from rolecraft.rewards.manipulations import PRAISE
from rolecraft.rewards.measured import Played
from rolecraft.rewards.safety import examine_asking
from rolecraft.scenarios.relay import relay
from rolecraft.trajectories import Event, Signal, Trajectory, load, signal_event

solved = signal("solved")
CRITERION = "A beginner understands the answer."


def run(*said: str, solved: float = 1.0) -> Trajectory:
    about = {"roles": [{"name": "teacher"}], "task": {"id": "t", "prompt": "Explain rain."}}
    trajectory = Trajectory("run", about)
    events = [Event("message", role="teacher", content=text) for text in said]
    events += [signal_event(Signal("solved", solved)), Event("stop", data={"reason": "idle"})]
    for seq, event in enumerate(events):
        event.seq = seq
    trajectory.write(events)
    return trajectory


def marker_in(question: str) -> str:
    found = re.search(r"The fence marker is (\w+)\.", question)
    assert found is not None
    return found[1]


def judge(points: Callable[[str], Any], *, name: str = "judge") -> FunctionModel:
    """A judge whose points are a function of what stands inside the fence."""

    def answer(call: ModelCall) -> str:
        question = call.messages[-1].content
        inside = question.split("begin\n", 1)[1].split(" end >>>", 1)[0]
        given = points(inside)
        return json.dumps({"marker": marker_in(question), "reason": "as said", "points": given})

    return FunctionModel(answer, name=name)


async def measured(opinion: Opinion, *said: str) -> Trajectory:
    trajectory = run(*said)
    found = await opinion.measure(Played(trajectory))
    trajectory.reported += [] if found is None else [found]
    return trajectory


async def test_an_opinion_pays_at_most_a_tenth_beside_what_was_measured_and_is_marked() -> None:
    clear = Opinion("clear", judge(lambda _: 10), CRITERION)
    judged = await measured(clear, "Water falls.")
    breakdown = (solved + clear)(judged)
    assert breakdown.shares == {"solved": 1.0, "opinion:clear": 0.1}
    assert not breakdown.grounded
    assert breakdown.ungrounded == ("opinion:clear",)
    assert judged.reported == [Signal("opinion.clear", 1.0, source="judge:judge")]
    more = Opinion("clear", judge(lambda _: 10), CRITERION, most=2.0)
    assert (solved + more)(judged).value == 3.0, "the user has said so"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "10",
        "I cannot help with that.",
        '{"points": 10}',
        '{"marker": "0000000000", "reason": "", "points": 10}',
        '{"marker": "MARKER", "reason": "", "points": 11}',
        '{"marker": "MARKER", "reason": "", "points": "many"}',
        '{"marker": "MARKER", "reason": ""}',
    ],
    ids=["nothing", "bare", "refusal", "no marker", "other marker", "above", "words", "no points"],
)
async def test_what_cannot_be_read_is_unknown_and_no_share(answer: str) -> None:
    asked: list[str] = []

    def say(call: ModelCall) -> str:
        asked.append(call.messages[-1].content)
        return answer.replace("MARKER", marker_in(asked[-1]))

    clear = Opinion("clear", FunctionModel(say), CRITERION)
    breakdown = (solved + clear)(await measured(clear, "Water falls."))
    assert breakdown.shares == {"solved": 1.0}
    assert breakdown.grounded
    assert len(asked) == 2, "asked once more, in a new conversation"


async def test_a_judge_that_is_down_costs_the_run_nothing_but_its_opinion() -> None:
    def down(call: ModelCall) -> str:
        raise ModelUnavailable("the server is down")

    clear = Opinion("clear", FunctionModel(down), CRITERION)
    assert (solved + clear)(await measured(clear, "Water falls.")).shares == {"solved": 1.0}


async def test_a_judge_that_is_set_up_wrongly_is_told() -> None:
    with pytest.raises(RealModelForbidden):
        await Opinion("clear", "openai/o3", CRITERION).measure(Played(run("Water falls.")))


async def test_the_judge_sees_the_work_inside_a_fence_and_no_measurement() -> None:
    seen: list[str] = []

    def look(inside: str) -> int:
        seen.append(inside)
        return 5

    clear = Opinion("clear", judge(look), CRITERION)
    await measured(clear, f"Water falls. {PRAISE}", "Really.")
    (inside,) = seen
    assert "Explain rain." in inside
    assert PRAISE in inside
    assert "solved" not in inside


def test_of_a_long_run_the_middle_is_left_out_and_it_says_how_much() -> None:
    text = text_of(run("begins " + "x" * 3 * MOST_SHOWN + " ends"), MOST_SHOWN)
    assert len(text) < MOST_SHOWN + 100
    assert "begins" in text
    assert "ends" in text
    assert re.search(r"\[2000\d\d characters left out\]", text)


async def test_in_a_scenario_the_opinion_is_recorded_and_not_asked_for_again(
    tmp_path: Any,
) -> None:
    asked: list[str] = []

    def look(text: str) -> int:
        asked.append(text)
        return 7

    brave = Opinion("brave", judge(look), CRITERION)
    scenario = replace(relay, reward=relay.reward + brave)
    (task,) = RelayTasks().sample(1)
    journal = tmp_path / "run.jsonl"
    episode = await scenario.play(task, model=ScriptedModel(["a", "1"]), journal=journal)
    assert episode.reward.shares["opinion:brave"] == pytest.approx(0.07)
    assert scenario.reward(load(journal)) == episode.reward
    again = await scenario.recover(task, journal, model=ScriptedModel([]))
    assert again.reward == episode.reward
    assert len(asked) == 1


async def test_stored_runs_are_asked_about_once() -> None:
    clear = Opinion("clear", judge(lambda _: 4), CRITERION)
    stored = run("Water falls.")
    stored.reported += await ask_judges(solved + clear, stored)
    assert (solved + clear)(stored).shares["opinion:clear"] == pytest.approx(0.04)
    assert await ask_judges(solved + clear, stored) == []


def test_how_much_an_opinion_pays_is_said_by_most_alone() -> None:
    clear = Opinion("clear", "openai/o3", CRITERION)
    with pytest.raises(UsageError, match="most=5"):
        5 * clear
    with pytest.raises(UsageError, match="wants a bound from 0"):
        Opinion("clear", "openai/o3", CRITERION, most=-1)
    assert (10 * (solved - clear))([Signal("solved", 1.0)]).value == 10


# --- groups ----------------------------------------------------------------------------------


def ranked_by(points: Callable[[str], int], *, leave_out: int = 0) -> FunctionModel:
    """A judge that gives each run points for its text."""

    def answer(call: ModelCall) -> str:
        question = call.messages[-1].content
        marker = marker_in(question)
        parts = re.findall(rf"{marker} run (\d+)\n(.*?)(?=\n\n{marker}|\n{marker} end)", question,
                           re.DOTALL)  # fmt: skip
        rows = [{"run": int(number), "points": points(text)} for number, text in parts]
        rows = rows[: len(rows) - leave_out]
        return json.dumps({"marker": marker, "reason": "compared", "runs": rows})

    return FunctionModel(answer, name="ranker")


def group() -> list[Trajectory]:
    return [run("short"), run("a longer answer"), run("the longest answer of them all")]


@pytest.mark.parametrize("seed", range(4))
async def test_runs_of_a_group_are_ranked_in_one_question_whatever_their_order(seed: int) -> None:
    ranker = ranked_by(lambda text: min(10, len(text.split()) - 5))
    better = Ranking("better", ranker, CRITERION, seed=seed)
    runs = group()
    await rank(solved + better, runs)
    values = [(solved + better)(each).shares["opinion:better"] for each in runs]
    assert values == sorted(values)
    assert len(set(values)) == 3
    await rank(solved + better, runs)
    assert [len(each.reported) for each in runs] == [1, 1, 1]


@pytest.mark.parametrize("left_out", [1, 3])
async def test_a_ranking_that_leaves_somebody_out_is_no_ranking(left_out: int) -> None:
    better = Ranking("better", ranked_by(lambda _: 5, leave_out=left_out), CRITERION)
    runs = group()
    await rank(solved + better, runs)
    assert [each.reported for each in runs] == [[], [], []]
    assert (solved + better)(runs[0]).shares == {"solved": 1.0}


async def test_one_run_alone_has_no_rank() -> None:
    better = Ranking("better", ranked_by(lambda _: 5), CRITERION)
    (alone,) = group()[:1]
    await rank(better, [alone])
    assert alone.reported == []
    assert await ask_judges(better, alone) == []


async def test_a_scenario_ranks_a_group_of_its_episodes() -> None:
    better = Ranking("better", ranked_by(lambda text: text.count("executor")), CRITERION)
    (task,) = RelayTasks().sample(1)
    scenario = replace(relay, reward=relay.reward + better)
    played = [await scenario.play(task, model=ScriptedModel(["a", str(n)])) for n in range(2)]
    assert all("opinion:better" not in each.reward.shares for each in played)
    ranked = await scenario.ranked(played)
    assert all("opinion:better" in each.reward.shares for each in ranked)
    assert await relay.ranked(played) == played


async def test_a_judge_that_is_given_by_name_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def make(spec: str) -> FunctionModel:
        made.append(spec)
        return judge(lambda _: 5, name=spec)

    monkeypatch.setattr(asking, "resolve_model", make)
    clear = Opinion("clear", "openai/o3", CRITERION)
    runs = [Played(run("Water falls.")) for _ in range(3)]
    signals = await asyncio.gather(*(clear.measure(each) for each in runs))
    assert [each and each.source for each in signals] == ["judge:openai/o3"] * 3
    assert made == ["openai/o3"]


# --- safety ----------------------------------------------------------------------------------


async def test_a_judge_that_falls_for_praise_is_found_by_asking_it() -> None:
    gullible = Opinion("good", judge(lambda text: 10 if "full score" in text else 2), CRITERION)
    report = await examine_asking(solved + gullible, run("Water falls."))
    assert {each.manipulation for each in report.raised} == {"praise the judge"}
    assert {each.share for each in report.raised} == {"opinion:good"}
    sober = Opinion("good", judge(lambda text: 6 if "Water" in text else 0), CRITERION)
    assert (await examine_asking(Gate(solved, solved + sober), run("Water falls."))).safe


async def test_an_opinion_in_the_log_is_neither_deleted_nor_doubled_for_profit() -> None:
    sour = Opinion("good", judge(lambda _: 0), CRITERION)
    judged = await measured(sour, "Water falls.")
    check_reward(solved + sour, judged)
    penalty = Opinion("bad", judge(lambda _: 9), CRITERION)
    with pytest.raises(UnsafeReward, match=r"`opinion\.bad` is not measured"):
        check_reward(solved - penalty, await measured(penalty, "Water falls."))
