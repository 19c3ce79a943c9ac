"""Many traces and one judge: each trace once and in order, one trace costs only itself."""

from __future__ import annotations

import asyncio
import json
import os
import re

import pytest

from rolecraft.errors import (
    MissingKey,
    ModelError,
    ModelUnavailable,
    TraceError,
    UsageError,
)
from rolecraft.failure_taxonomy import Judge
from rolecraft.failure_taxonomy.judging import labels_file
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.failure_taxonomy.judging.campaign import GIVE_UP, TRIES, Campaign
from rolecraft.failure_taxonomy.judging.estimate import estimate
from rolecraft.failure_taxonomy.judging.labels_file import LabelsError
from rolecraft.failure_taxonomy.labels import read_labels
from rolecraft.failure_taxonomy.report import Report
from rolecraft.models import Completion, FunctionModel, Limits, PromptCache, RateLimiter
from rolecraft.models.budget import Budget
from rolecraft.trajectories import Event, Trajectory, Usage
from rolecraft.trajectories.append_file import lock


@pytest.fixture
def runs(tmp_path):
    """Makes so many journals in a folder; run N says `done N`."""

    def make(number=5):
        for at in range(number):
            events = [
                Event("message", role="user", content=f"task {at}", to=("ann",), seq=0),
                Event("message", role="ann", content=f"done {at}.", to=("<all>",), seq=1),
            ]
            Trajectory(f"t{at}", {}, events).save(tmp_path / "runs" / f"run-{at}.jsonl")
        return tmp_path / "runs"

    return make


def which(call) -> int:
    """The run that a judge is asked about."""
    return int(re.search(r"done (\d+)\.", call.messages[-1].content)[1])


def judged(says, before=None, **settings):
    """A model that finds every mode absent; `before` is called first, with the run's number."""
    absent = says(**settings)

    def answer(call):
        if before is not None:
            before(which(call))
        given = absent._function(call)
        return Completion(text=given.text, usage=Usage(100, 50, 0.25))

    return FunctionModel(answer)


def judge_of(model, tmp_path, *, cached=True, budget=None, **settings):
    cache = PromptCache(tmp_path / "answers") if cached else None
    return Judge(
        model,
        asker=Asker(model, cache=cache, budget=budget, pace=RateLimiter(start=4, most=4)),
        **settings,
    )


async def all_of(campaign):
    return [result async for result in campaign.run()]


def names(results):
    return [result.trace.rpartition("/")[2] for result in results if isinstance(result, Report)]


ALL = [f"run-{at}.jsonl" for at in range(5)]


async def test_every_trace_once_and_in_order(runs, says, tmp_path):
    """The folder, a file in it, and the file by another path name the same traces."""
    folder, out = runs(), tmp_path / "labels.jsonl"
    paths = [folder / "run-3.jsonl", folder, folder / ".." / "runs" / "run-0.jsonl"]
    campaign = Campaign(paths, judge=judge_of(judged(says), tmp_path), out=out)
    results = await all_of(campaign)
    assert names(results) == ["run-3.jsonl", *(name for name in ALL if name != "run-3.jsonl")]
    assert [row.trace for row in read_labels(out)] == [result.trace for result in results]
    assert campaign.tally.asked == 5
    assert campaign.tally.usage.usd == pytest.approx(1.25)
    assert not campaign.stopped


async def test_started_again_it_asks_nothing_and_writes_the_same_bytes(runs, says, tmp_path):
    folder, out = runs(), tmp_path / "labels.jsonl"
    await all_of(Campaign(folder, judge=judge_of(judged(says), tmp_path), out=out))
    first = out.read_bytes()
    untouched = judged(says)
    again = Campaign(folder, judge=judge_of(untouched, tmp_path), out=out, concurrency=1)
    await all_of(again)
    assert out.read_bytes() == first
    assert untouched.calls == []
    assert (again.tally.reused, again.tally.saved.usd) == (5, pytest.approx(1.25))
    assert json.loads(first.splitlines()[0])["judge"]["usage"]["usd"] == pytest.approx(0.25)


async def test_the_file_of_labels_may_lie_among_the_traces(runs, says, tmp_path):
    folder = runs()
    for _ in range(2):
        campaign = Campaign(
            folder, judge=judge_of(judged(says), folder / ".x"), out=folder / "labels.jsonl"
        )
        assert names(await all_of(campaign)) == ALL


async def test_a_broken_file_costs_itself_only(runs, says, tmp_path):
    folder = runs()
    (folder / "run-2.jsonl").write_text("{broken")
    out = tmp_path / "labels.jsonl"
    campaign = Campaign(folder, judge=judge_of(judged(says), tmp_path), out=out)
    results = await all_of(campaign)
    assert [type(result) for result in results] == [Report, Report, TraceError, Report, Report]
    assert len(read_labels(out)) == 4


async def test_calls_that_fail_are_made_again_and_only_they(runs, says, tmp_path):
    failures = {1: 2, 3: 1}

    def fail(run):
        if failures.get(run):
            failures[run] -= 1
            raise ModelUnavailable("busy", status=503)

    model = judged(says, fail)
    campaign = Campaign(runs(), judge=judge_of(model, tmp_path))
    results = await all_of(campaign)
    assert all("derailment" in report.judged for report in results)
    assert (campaign.tally.asked, campaign.tally.failed) == (5, 3)
    assert len(model.calls) == 8
    assert not campaign.unanswered


async def test_what_fails_to_the_end_is_unknown_and_told(runs, says, tmp_path):
    def fail(run):
        if run == 1:
            raise ModelUnavailable("busy")

    folder, out = runs(), tmp_path / "labels.jsonl"
    campaign = Campaign(folder, judge=judge_of(judged(says, fail), tmp_path), out=out)
    results = await all_of(campaign)
    assert campaign.tally.failed == TRIES
    assert campaign.unanswered == [str(folder / "run-1.jsonl")]
    assert "busy" in results[1].unjudged["derailment"]
    again = Campaign(folder, judge=judge_of(judged(says), tmp_path), out=out)
    await all_of(again)
    assert (again.tally.asked, again.tally.reused, again.unanswered) == (1, 4, [])
    assert read_labels(out)[1].verdict("derailment") == "absent"


async def test_without_a_cache_no_answer_is_asked_for_twice(runs, says, tmp_path):
    answered = []

    def fail(run):
        if run == 1:
            raise ModelUnavailable("busy")
        answered.append(run)

    model = judged(says, fail)
    campaign = Campaign(runs(), judge=judge_of(model, tmp_path, cached=False))
    await all_of(campaign)
    assert sorted(answered) == [0, 2, 3, 4]
    assert len(model.calls) == 4 + TRIES


async def test_a_judge_that_is_gone_ends_the_campaign(runs, says, tmp_path):
    def fail(run):
        raise ModelUnavailable("nobody there")

    model = judged(says, fail)
    campaign = Campaign(runs(40), judge=judge_of(model, tmp_path), concurrency=2)
    results = await all_of(campaign)
    assert "nobody there" in campaign.stopped
    assert campaign.skipped > 30
    assert len(results) + campaign.skipped == 40
    assert len(model.calls) <= GIVE_UP + 2


async def test_a_model_that_refuses_every_trace_ends_the_campaign(runs, says, tmp_path):
    def fail(run):
        raise ModelError("there is no such model", status=404)

    campaign = Campaign(runs(40), judge=judge_of(judged(says, fail), tmp_path), concurrency=2)
    await all_of(campaign)
    assert "there is no such model" in campaign.stopped
    assert campaign.skipped > 30


async def test_a_server_that_nobody_can_reach_ends_the_campaign_with_the_first_call(
    runs, says, tmp_path
):
    def fail(run):
        raise ModelUnavailable("no answer. The last one: no connection: refused")

    model = judged(says, fail)
    campaign = Campaign(runs(10), judge=judge_of(model, tmp_path), concurrency=1)
    await all_of(campaign)
    assert "cannot be reached" in campaign.stopped
    assert len(model.calls) == 1
    assert campaign.skipped == 9


async def test_a_connection_that_is_lost_after_an_answer_does_not_end_it(runs, says, tmp_path):
    def fail(run):
        if run == 1:
            raise ModelUnavailable("no answer. The last one: no connection: refused")

    campaign = Campaign(runs(), judge=judge_of(judged(says, fail), tmp_path), concurrency=1)
    results = await all_of(campaign)
    assert names(results) == ALL
    assert not campaign.stopped


async def test_a_judge_that_refuses_does_not_replace_labels_that_a_judge_gave(runs, says, tmp_path):
    """As many traces, but fewer labels: of the same traces, only what detectors say."""

    def refuse(run):
        raise ModelError("there is no such model", status=404)

    folder, out = runs(2), tmp_path / "labels.jsonl"
    await all_of(Campaign(folder, judge=judge_of(judged(says), tmp_path), out=out))
    before = out.read_bytes()
    refused = Campaign(
        folder, judge=judge_of(judged(says, refuse), tmp_path, cached=False), out=out
    )
    results = await all_of(refused)
    assert len(results) == len(refused.refused) == 2
    assert (out.read_bytes(), refused.kept_earlier) == (before, True)


async def test_a_trajectory_is_named_by_its_id(says, tmp_path, trace):
    def fail(call):
        raise ModelUnavailable("busy")

    trajectory = trace(Event("message", role="ann", content="done 1."))
    campaign = Campaign(trajectory, judge=judge_of(FunctionModel(fail), tmp_path))
    await all_of(campaign)
    assert campaign.unanswered == [trajectory.id]


async def test_a_trace_that_the_model_refuses_keeps_what_detectors_say(runs, says, tmp_path):
    def fail(run):
        if run == 2:
            raise ModelError("the context is too long", status=400)

    campaign = Campaign(runs(), judge=judge_of(judged(says, fail), tmp_path))
    results = await all_of(campaign)
    assert names(results) == ALL
    assert results[2].opinion is None
    assert "the judge did not look" in results[2].unjudged["derailment"]
    assert "the context is too long" in results[2].problems[0]
    assert list(campaign.refused) == [results[2].trace]


async def test_what_is_wrong_for_all_traces_comes_out(runs, says, tmp_path):
    def fail(run):
        raise MissingKey("no key")

    out = tmp_path / "labels.jsonl"
    with pytest.raises(MissingKey):
        await all_of(Campaign(runs(), judge=judge_of(judged(says, fail), tmp_path), out=out))
    assert not out.exists()


async def test_at_a_limit_calls_under_way_are_kept_and_the_rest_is_left(runs, says, tmp_path):
    folder, out = runs(), tmp_path / "labels.jsonl"
    budget = Budget(Limits(calls=2), name="the judge")
    model = judged(says)
    campaign = Campaign(folder, judge=judge_of(model, tmp_path, budget=budget), out=out)
    results = await all_of(campaign)
    assert len(results) == len(read_labels(out)) == 2
    assert campaign.skipped == 3
    assert "2 model calls" in campaign.stopped
    assert len(PromptCache(tmp_path / "answers")) == 2
    budget = Budget(Limits(calls=3))
    again = Campaign(folder, judge=judge_of(model, tmp_path, budget=budget), out=out)
    assert names(await all_of(again)) == ALL
    assert not again.stopped


async def test_a_campaign_that_had_to_stop_leaves_an_earlier_file_with_more_traces(
    runs, says, tmp_path
):
    folder, out = runs(), tmp_path / "labels.jsonl"
    few = Campaign(folder, judge=stopped_after(2, says), out=out)
    await all_of(few)
    assert (len(read_labels(out)), few.kept_earlier) == (2, False)
    more = Campaign(folder, judge=stopped_after(3, says), out=out)
    await all_of(more)
    assert (len(read_labels(out)), more.kept_earlier) == (3, False)
    before = out.read_bytes()
    fewer = Campaign(folder, judge=stopped_after(1, says), out=out)
    await all_of(fewer)
    assert (out.read_bytes(), fewer.kept_earlier) == (before, True)


def stopped_after(calls, says):
    model = judged(says)
    return Judge(model, asker=Asker(model, budget=Budget(Limits(calls=calls))))


async def test_at_a_limit_the_other_samples_of_a_trace_are_kept_too(runs, says, tmp_path):
    absent = says()

    async def slow(call):
        for _ in range(20):
            await asyncio.sleep(0)
        return absent._function(call)

    judge = judge_of(FunctionModel(slow), tmp_path, budget=Budget(Limits(calls=2)), samples=3)
    campaign = Campaign(runs(1), judge=judge)
    assert await all_of(campaign) == []
    assert campaign.skipped == 1
    assert len(PromptCache(tmp_path / "answers")) == 2
    assert campaign.tally.asked == 2


async def test_a_file_that_is_no_campaigns_is_not_overwritten(runs, tmp_path):
    folder = runs()
    people = tmp_path / "people.jsonl"
    people.write_text('{"trace": "a", "annotator": "ann", "findings": []}\n')
    for path in (people, folder / "run-0.jsonl"):
        before = path.read_bytes()
        with pytest.raises(LabelsError, match=path.name):
            await all_of(Campaign(folder, out=path))
        assert path.read_bytes() == before


async def test_labels_of_a_judge_are_not_replaced_by_those_of_detectors_alone(runs, says, tmp_path):
    folder, out = runs(), tmp_path / "labels.jsonl"
    judge = judge_of(judged(says), tmp_path)
    for asked in (None, None, judge):
        await all_of(Campaign(folder, judge=asked, out=out))
    before = out.read_bytes()
    with pytest.raises(LabelsError, match=r"labels of a judge.*another file.*--judge"):
        await all_of(Campaign(folder, out=out))
    assert out.read_bytes() == before
    await all_of(Campaign(folder, judge=judge, out=out))
    assert out.read_bytes() == before


async def test_two_campaigns_do_not_write_one_file_at_once(runs, tmp_path):
    folder, out = runs(), tmp_path / "labels.jsonl"
    first = Campaign(folder, out=out).run()
    await anext(first)
    with pytest.raises(LabelsError, match="Another process"):
        await all_of(Campaign(folder, out=out))
    assert len([result async for result in first]) == 4
    assert len(read_labels(out)) == 5


@pytest.mark.parametrize("begun", [False, True])
async def test_labels_that_another_process_has_just_finished_are_not_emptied(
    runs, tmp_path, monkeypatch, begun
):
    """It finishes, and perhaps a third one begins, between our opening of the file and our lock."""
    folder, out, there = runs(), tmp_path / "labels.jsonl", tmp_path / ".labels.jsonl.part"
    await all_of(Campaign(folder, out=tmp_path / "other.jsonl"))
    finished = (tmp_path / "other.jsonl").read_text()
    there.write_text(finished)
    meanwhile = [True]

    def late(fd):
        if meanwhile:
            meanwhile.clear()
            os.replace(there, out)
            if begun:
                there.touch()
        lock(fd)

    monkeypatch.setattr(labels_file, "lock", late)
    campaign = Campaign(folder, out=out).run()
    await anext(campaign)
    assert out.read_text() == finished
    await campaign.aclose()


async def test_labels_appear_whole_or_not_at_all(runs, tmp_path):
    out = tmp_path / "labels.jsonl"
    campaign = Campaign(runs(), out=out).run()
    await anext(campaign)
    await campaign.aclose()
    assert not out.exists()


async def test_concurrency_is_checked():
    with pytest.raises(UsageError, match="concurrency"):
        Campaign([], concurrency=0)


# --- the estimate ------------------------------------------------------------------------------


async def test_the_estimate_is_what_is_then_asked(runs, says, tmp_path):
    model = judged(says)
    judge = judge_of(model, tmp_path, samples=3)
    folder = runs()
    (folder / "odd.json").write_text("{}")
    guess = await estimate(Campaign(folder, judge=judge))
    assert model.calls == []
    assert (guess.traces, guess.unreadable, guess.calls, guess.cached) == (5, 1, 15, 0)
    campaign = Campaign(folder, judge=judge)
    await all_of(campaign)
    assert campaign.tally.asked == guess.calls
    words = sum(message.content.count(" ") + 1 for c in model.calls for message in c.messages)
    assert abs(guess.prompt_tokens - words) <= 15
    after = await estimate(Campaign(folder, judge=judge))
    assert (after.calls, after.cached, after.prompt_tokens) == (0, 15, 0)
    assert "15 answers are in the cache" in str(after)
    assert "$0" in str(after)


async def test_an_estimate_leaves_the_judge_as_it_was(runs, says, tmp_path):
    judge = judge_of(judged(says), tmp_path)
    asker = judge.asker
    await estimate(Campaign(runs(), judge=judge))
    assert judge.asker is asker
    assert asker.pace.under_way == 0


async def test_so_many_traces_are_under_way_at_once(runs, says, tmp_path):
    under_way, three = 0, asyncio.Event()
    absent = says()

    async def answer(call):
        nonlocal under_way
        under_way += 1
        assert under_way <= 3
        if under_way == 3:
            three.set()
        await three.wait()
        under_way -= 1
        return absent._function(call)

    campaign = Campaign(runs(20), judge=judge_of(FunctionModel(answer), tmp_path), concurrency=3)
    assert len(await all_of(campaign)) == 20
