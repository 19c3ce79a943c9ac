"""Campaigns over long traces, whose parts are asked about with notes on the parts before.

Reported: a call that failed once made the later parts be paid for twice: the trace was asked
about again from the failed part on, and its notes made other questions of them.
"""

from __future__ import annotations

import json
import re

from rolecraft.errors import ModelUnavailable
from rolecraft.failure_taxonomy import MODES, Judge
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.failure_taxonomy.judging.campaign import TRIES, Campaign
from rolecraft.failure_taxonomy.judging.estimate import estimate
from rolecraft.failure_taxonomy.judging.merging import is_global
from rolecraft.models import FunctionModel, PromptCache
from rolecraft.trajectories import Event, FailureFinding, Trajectory


def judge_of(model, tmp_path, *, cached=True, **settings):
    cache = PromptCache(tmp_path / "answers") if cached else None
    return Judge(model, asker=Asker(model, cache=cache), **settings)


async def all_of(campaign):
    return [result async for result in campaign.run()]


def long_run():
    events = [
        Event("message", role="ann", content=f"step {at} " + "la " * 300, seq=at)
        for at in range(30)
    ]
    return Trajectory("long", {}, events)


def noting(failures, answered):
    """A model that notes what it read; part N fails so often, then answers are in `answered`."""

    def answer(call):
        question = call.messages[-1].content
        part = int(re.search(r"The record, part (\d+) of", question)[1])
        if failures.get(part):
            failures[part] -= 1
            raise ModelUnavailable("busy", status=503)
        answered.append(question)
        asked = question.rsplit("described above: ", 1)[1].rstrip(".").split(", ")
        return json.dumps(
            {
                "marker": re.search(r"The fence marker is (\w+)\.", question)[1],
                "diagnosis": "d",
                "digest": f"read up to part {part}",
                "findings": [{"mode": mode, "verdict": "absent"} for mode in asked],
            }
        )

    return FunctionModel(answer)


async def test_a_part_that_fails_is_asked_about_again_before_the_next_one(tmp_path):
    """The next part is asked with the notes of this one: later it would be another question."""
    answered = []
    model = noting({2: 1, 4: TRIES - 1}, answered)
    judge = judge_of(model, tmp_path, window=5000, search=False)
    campaign = Campaign(long_run(), judge=judge)
    (report,) = await all_of(campaign)
    assert report.opinion.windows == len(answered) == campaign.tally.asked > 5
    assert (campaign.tally.failed, campaign.unanswered) == (TRIES, [])
    assert report.opinion.coverage == 1.0
    for number, question in enumerate(answered[1:], start=1):
        assert f"read up to part {number}\n" in question


async def test_after_a_part_without_an_answer_nothing_is_paid_for_twice(tmp_path):
    """The parts after it wait for the next run, which asks about each part once."""
    answered = []
    first = judge_of(noting({3: TRIES}, answered), tmp_path, window=5000)
    campaign = Campaign(long_run(), judge=first)
    (report,) = await all_of(campaign)
    assert len(answered) == 2
    assert campaign.unanswered == ["long"]
    assert "busy" in report.unjudged["derailment"]
    again = judge_of(noting({}, answered), tmp_path, window=5000, search=False)
    (report,) = await all_of(Campaign(long_run(), judge=again))
    assert report.opinion.windows == len(answered) == len(set(answered))
    assert report.opinion.coverage == 1.0


async def test_where_no_answers_are_kept_the_other_parts_are_read_all_the_same(tmp_path):
    answered = []
    model = noting({3: TRIES}, answered)
    judge = judge_of(model, tmp_path, cached=False, window=5000, search=False)
    (report,) = await all_of(Campaign(long_run(), judge=judge))
    assert report.opinion.windows == len(answered) + 1


# --- the estimate ---


async def test_the_estimate_says_what_is_not_in_it(says, tmp_path):
    long_run().save(tmp_path / "long.jsonl")
    judge = judge_of(says(), tmp_path, window=5000)
    guess = await estimate(Campaign(tmp_path / "long.jsonl", judge=judge))
    assert guess.calls > 5
    assert guess.searched == 1
    assert "searched as a whole" in str(guess)


async def test_a_long_trace_is_searched_only_if_a_mode_of_the_whole_is_open(says, tmp_path):
    class AllOfThese:
        """Finds these modes absent, so that no judge is asked about them."""

        name = "all-of-these"

        def __init__(self, modes):
            self.modes = tuple(modes)

        def judge(self, view):
            return [FailureFinding(mode, "absent", source=self.name) for mode in self.modes]

    of_the_whole = [mode for mode in MODES if is_global(mode)]
    for modes, searched in ((of_the_whole, 0), (of_the_whole[1:], 1)):
        judge = judge_of(says(), tmp_path, window=5000)
        campaign = Campaign(long_run(), judge=judge, detectors=[AllOfThese(modes)])
        guess = await estimate(campaign)
        assert guess.calls > 5
        assert guess.searched == searched
