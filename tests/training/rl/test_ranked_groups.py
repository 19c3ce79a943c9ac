"""A reward with a `Ranking`: the attempts at a task are compared before a step learns from them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from rolecraft.errors import ModelError, UsageError
from rolecraft.models import FunctionModel, ModelCall
from rolecraft.rewards import Opinion, Ranking
from rolecraft.scenarios import Scenario
from rolecraft.scenarios.relay import relay
from rolecraft.training import FROM_SCRATCH, train
from rolecraft.training.credit import credit, play_without
from rolecraft.training.rl.checks import policy
from rolecraft.training.rl.learner import CopiedWeights
from rolecraft.training.rl.playing import Player, attempts
from rolecraft.training.rl.stages import Plain
from rolecraft.training.rl.stream import Stream

torch.set_num_threads(1)


class Judge:
    """Gives the runs of a group 0, 1, 2, … points, in the order in which it reads them."""

    def __init__(self, points: Callable[[int], int]) -> None:
        self.asked: list[int] = []
        self._points = points

    def __call__(self, call: ModelCall) -> str:
        question = call.messages[-1].content
        fence = re.search(r"The fence marker is (\w+)\.", question)
        assert fence is not None
        marker = fence[1]
        runs = re.findall(rf"{marker} run (\d+)\n", question)
        self.asked.append(len(runs))
        rows = [{"run": int(run), "points": self._points(n)} for n, run in enumerate(runs)]
        return json.dumps({"marker": marker, "reason": "compared", "runs": rows})


def judged(judge: Callable[[ModelCall], Any]) -> Scenario:
    better = Ranking("better", FunctionModel(judge, name="judge"), "The better answer.", most=0.1)
    return replace(relay, reward=relay.reward + better)


async def test_each_group_is_compared_once_and_every_attempt_gets_its_opinion() -> None:
    judge = Judge(lambda number: number)
    scenario = judged(judge)
    player = Player(scenario, model=policy(scenario, None, 0), role_models={})
    tasks = attempts(relay.tasks.sample(2, seed=0), 3, 0, 0)
    played = await player.play(tasks)
    assert judge.asked == [3, 3]
    shares = [episode.reward.shares["opinion:better"] for episode in played.episodes]
    for group in (shares[:3], shares[3:]):
        assert sorted(group) == pytest.approx([0.0, 0.01, 0.02])


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_training_learns_from_what_the_judge_thinks(asynchronous: bool) -> None:
    judge = Judge(lambda number: 10 * (number % 2))
    run = await train(
        judged(judge),
        algorithm=replace(FROM_SCRATCH, group=4, epochs=1),
        steps=2,
        tasks_per_step=2,
        asynchronous=asynchronous,
    )
    assert set(judge.asked) == {4}
    for record in run.records:
        assert record.reward == pytest.approx(record.signals["relay.correct"] + 0.05)
        assert record.silent_groups == 0, "half of each group is better by the judge"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_judge_that_does_not_answer_costs_opinions_and_one_warning_a_step(
    asynchronous: bool,
) -> None:
    def refuses(call: ModelCall) -> str:
        raise ModelError("the judge is away")

    told: list[str] = []
    run = await train(
        judged(refuses),
        algorithm=replace(FROM_SCRATCH, group=2, epochs=1),
        steps=1,
        tasks_per_step=2,
        asynchronous=asynchronous,
        warn=told.append,
    )
    assert run.records[0].reward == run.records[0].signals["relay.correct"]
    (warning,) = told
    assert "at 2 of 2 tasks are not compared" in warning
    assert "the judge is away" in warning


@pytest.mark.parametrize("fails_first", [False, True])
async def test_where_one_of_two_judges_fails_rewards_are_what_the_records_say(
    fails_first: bool,
) -> None:
    """Once the other judge's opinion stood in the record and not in the reward."""

    def refuses(call: ModelCall) -> str:
        raise ModelError("the judge is away")

    answers = Judge(lambda number: number)
    better = Ranking("better", FunctionModel(answers, name="judge"), "Better.", most=0.1)
    away = Ranking("kinder", FunctionModel(refuses, name="away"), "Kinder.", most=0.1)
    first, second = (away, better) if fails_first else (better, away)
    scenario = replace(relay, reward=relay.reward + first + second)
    player = Player(scenario, model=policy(scenario, None, 0), role_models={})
    played = await player.play(attempts(relay.tasks.sample(1, seed=0), 3, 0, 0))
    for episode in played.episodes:
        assert scenario.reward(episode.trajectory) == episode.reward
        assert not episode.reward.ungrounded


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_answers_of_judges_that_cannot_be_read_are_warned_of_and_counted(
    asynchronous: bool,
) -> None:
    """Once only a log that is silent by default was told."""
    mumbles = FunctionModel(lambda call: "quite good", name="judge")
    better = Ranking("better", mumbles, "The better answer.", most=0.1)
    clear = Opinion("clear", mumbles, "It is clear.", most=0.1)
    told: list[str] = []
    await train(
        replace(relay, reward=relay.reward + better + clear),
        algorithm=replace(FROM_SCRATCH, group=2, epochs=1),
        steps=1,
        tasks_per_step=2,
        asynchronous=asynchronous,
        warn=told.append,
    )
    assert len(told) == 2
    assert "4 of 4 attempts are without the opinion 'better'" in told[0]
    assert "4 of 4 attempts are without the opinion 'clear'" in told[1]


def played_ahead(scenario: Scenario) -> Stream:
    """Two groups of three a step, and those of the next one ahead."""
    model: Any = policy(scenario, None, 0)
    return Stream(
        Player(scenario, model=model, role_models={}),
        Plain(relay.tasks),
        CopiedWeights(model, replace(FROM_SCRATCH, group=3)),
        tasks_per_step=2,
        group=3,
        seed=0,
        max_staleness=1,
        refills=0,
        on_chosen=lambda tasks: None,
    )


async def test_the_judge_has_compared_the_next_step_while_the_trainer_is_at_this_one() -> None:
    """The trainer never waits for a judge that is quicker than it is."""
    all_asked = asyncio.Event()
    judge = Judge(lambda number: number)

    def ask(call: ModelCall) -> str:
        answer = judge(call)
        if len(judge.asked) == 4:
            all_asked.set()
        return answer

    async with played_ahead(judged(ask)) as stream:
        first = await stream.next(0)
        # `first` is being learnt from: nobody wants the groups of the next step yet.
        await asyncio.wait_for(all_asked.wait(), 120)
        stream.learnt(first)
        second = await stream.next(1)
    for played in (first, second):
        shares = [episode.reward.shares["opinion:better"] for episode in played.episodes]
        for group in (shares[:3], shares[3:]):
            assert sorted(group) == pytest.approx([0.0, 0.01, 0.02])


async def test_the_judge_is_asked_again_where_a_stale_attempt_of_the_group_was_replaced() -> None:
    """What was said of the others was said beside one that is gone: nobody keeps it."""
    judge = Judge(lambda number: number)
    async with played_ahead(judged(judge)) as stream:
        first = await stream.next(0)
        while not all(group.ready for group in stream._groups.values()):
            stream._news.clear()
            await asyncio.wait_for(stream._news.wait(), 120)
        assert len(judge.asked) == 4
        stale = next(iter(stream._groups.values())).slots[0]
        gone = stale.played
        stale.oldest = -2  # as if two updates had been published since its first token
        stream.learnt(first)
        second = await stream.next(1)
    assert second.dropped == 1
    assert all(rollout is not gone for rollout in second.rollouts)
    assert judge.asked[:5] == [3] * 5
    for rollout in second.rollouts:
        assert rollout.trajectory is not None
        opinions = [s for s in rollout.trajectory.signals if s.name == "opinion.better"]
        assert len(opinions) == 1
    shares = [episode.reward.shares["opinion:better"] for episode in second.episodes]
    for group in (shares[:3], shares[3:]):
        assert sorted(group) == pytest.approx([0.0, 0.01, 0.02])


async def test_a_stream_that_is_left_leaves_no_judge_asked() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def waits(call: ModelCall) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with played_ahead(judged(waits)):
        await asyncio.wait_for(begun.wait(), 120)
    assert ended.is_set()


async def test_at_most_so_many_groups_are_compared_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rolecraft.training.rl.playing.JUDGED_AT_ONCE", 1)
    judge, now, most = Judge(lambda number: number), 0, 0

    async def ask(call: ModelCall) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)  # others would begin here
        now -= 1
        return judge(call)

    async with played_ahead(judged(ask)) as stream:
        await stream.next(0)
    assert most == 1


async def test_a_judge_that_is_set_up_wrongly_ends_an_asynchronous_training() -> None:
    def refuses(call: ModelCall) -> str:
        raise UsageError("no such judge")

    with pytest.raises(UsageError, match="no such judge"):
        await train(
            judged(refuses),
            algorithm=replace(FROM_SCRATCH, group=2, epochs=1),
            steps=2,
            tasks_per_step=2,
            asynchronous=True,
        )


async def test_where_a_comparison_breaks_the_others_are_not_left_asking() -> None:
    """The error comes out, and the comparisons under way have ended by then."""
    ended: list[str] = []
    both = asyncio.Event()

    async def waits(call: ModelCall) -> str:
        ended.append("begun")
        if len(ended) == 1:
            await asyncio.wait_for(both.wait(), 60)
            raise UsageError("no such judge")
        both.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stopped")
        return ""

    scenario = judged(waits)
    player = Player(scenario, model=policy(scenario, None, 0), role_models={})
    tasks = attempts(relay.tasks.sample(2, seed=0), 2, 0, 0)
    with pytest.raises(UsageError, match="no such judge"):
        await player.play(tasks)
    assert ended == ["begun", "begun", "stopped"]


async def test_a_ranking_is_refused_where_the_other_side_of_a_comparison_cannot_have_it() -> None:
    """The team without a role is in no group: each role would be paid for what it lacks."""
    judge = Judge(lambda number: number)
    with pytest.raises(UsageError, match=r"counterfactual.*`Ranking\('better'\)`.*Take `Opinion"):
        await train(judged(judge), credit=credit("counterfactual"), steps=1, tasks_per_step=1)
    with pytest.raises(UsageError, match=r"`Ranking\('better'\)`"):
        await play_without(judged(judge), [])
    assert judge.asked == []


async def test_an_opinion_is_asked_of_runs_with_and_without_a_role_alike() -> None:
    asked = 0

    def fair(call: ModelCall) -> str:
        nonlocal asked
        asked += 1
        marker = re.search(r"The fence marker is (\w+)\.", call.messages[-1].content)
        assert marker is not None
        return json.dumps({"marker": marker[1], "reason": "as good as any", "points": 10})

    one = Opinion("good", FunctionModel(fair, name="judge"), "A good answer.", most=0.1)
    await train(
        replace(relay, reward=relay.reward + one),
        algorithm=replace(FROM_SCRATCH, group=2, epochs=1),
        credit=credit("counterfactual"),
        steps=1,
        tasks_per_step=1,
    )
    assert asked == 2 * 3, "each attempt, and each without the planner and without the executor"
