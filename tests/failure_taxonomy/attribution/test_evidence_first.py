"""Evidence first: verified findings are weighed in one call; without evidence nothing is added."""

from __future__ import annotations

import re

import pytest

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.attribution import STRATEGIES, Attributor
from rolecraft.failure_taxonomy.attribution.case import Case
from rolecraft.failure_taxonomy.attribution.evidence_first import SHOWN, extract
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories import Event

ROLES = ("ann", "ben", "cleo")
SIGN = "it is surely 12 and not 13"


async def test_known_findings_are_weighed_in_one_call(run, reader, known):
    trajectory = run()
    report = known((2, "cleo"), (5, "cleo", SIGN))
    one = reader()
    found = await Attributor(one.model).attribute(trajectory, report=report)
    assert (found.role, found.step, found.mode) == ("cleo", 5, "derailment")
    assert (found.quote, found.reason) == (SIGN, "it is the sign")
    assert found.calls == 1


async def test_another_step_can_be_named_with_evidence(run, reader, known):
    trajectory = run()
    report = known((2, "cleo"))
    found = await Attributor(reader().model).attribute(trajectory, report=report)
    assert (found.role, found.step, found.mode, found.quote) == ("cleo", 5, "", SIGN)


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidate": 0},
        {"candidate": 3},
        {"candidate": "1"},
        {"candidate": True},
        {"candidate": None, "quote": "words that nobody said"},
        {"candidate": None, "quote": ""},
        {"candidate": None, "step": 6},
        {"candidate": None, "step": 0},
        {"candidate": None, "step": 400},
        {"candidate": None, "role": "ben"},
        {"marker": "0123456789"},
    ],
    ids=repr,
)
async def test_without_evidence_the_earliest_finding_stands(run, wrong, reader, known):
    trajectory = run()
    report = known((3, "ann"), (2, "cleo"))
    found = await Attributor(reader(**wrong).model).attribute(trajectory, report=report)
    assert (found.role, found.step) == ("cleo", 2)
    assert "the earliest finding stands, because" in found.problems[0]


async def test_without_findings_and_evidence_nobody_is_blamed(run, reader, known):
    trajectory = run()
    for wrong in ({"quote": "words that nobody said"}, {"role": "ben"}, {"candidate": 1}):
        found = await Attributor(reader(**wrong).model).attribute(trajectory, report=known())
        assert found.labels.decisive is None


async def test_what_the_run_recovered_from_is_no_candidate(trace, reader, known):
    trajectory = trace(
        Event("message", role="ann", content=f"I say, {SIGN}."),
        Event("message", role="ben", content="I made a slip."),
        Event("verify", role="environment", data={"target": "tests", "passed": True}),
        Event("stop", data={"reason": "finished"}),
        goal={"verify": "tests"},
    )
    report = known((0, "ann", SIGN))
    model = reader().model
    await Attributor(model).attribute(trajectory, report=report)
    assert "candidate 1" not in model.calls[-1].messages[-1].content


@pytest.mark.parametrize("depth", [0.05, 0.5, 0.95])
async def test_of_a_long_trace_the_candidates_are_shown_and_the_rest_in_brief(
    run, depth, reader, known
):
    steps = 4000
    at = int(steps * depth)
    trajectory = run(steps, at, filler="la " * 250)
    report = known((at, ROLES[at % 3], SIGN))
    one = reader()
    found = await Attributor(one.model).attribute(trajectory, report=report)
    assert (found.role, found.step) == (ROLES[at % 3], at)
    (call,) = one.model.calls
    asked = call.messages[-1].content
    assert len(asked) < 2 * SHOWN
    assert "not shown: " in asked, "nothing is left out in silence"
    assert f"event {at - 1}: " in asked


def test_every_event_of_a_longer_trace_is_shown_or_said_to_be_missing(run, known):
    for steps, filler in ((100, 900), (300, 900), (3000, 40), (20_000, 10)):
        case = Case(TraceView(run(steps, 5, filler="x" * filler)), asker=None)
        pieces = extract(case, known((40, "ben")).findings)
        seen = set()
        for piece in pieces:
            if piece.event is not None:
                seen.add(piece.event.seq)
            else:
                first, last = map(int, re.search(r"events, (\d+) to (\d+)", piece.head).groups())
                seen |= set(range(first, last + 1))
        assert seen == {event.seq for event in case.events}
        assert sum(piece.size for piece in pieces) < 1.7 * SHOWN


PUBLISHED = [name for name in STRATEGIES if name != "evidence-first"]


@pytest.mark.parametrize("strategy", PUBLISHED)
async def test_a_record_that_no_question_can_show_costs_nothing_and_says_the_way_out(
    run, strategy, reader
):
    trajectory, model = run(40, at=20, filler="la " * 400), reader().model
    found = await Attributor(model, strategy=strategy, window=20_000).attribute(trajectory)
    assert (found.role, found.step, model.calls) == ("", None, [])
    assert re.search(r"4\d,\d{3} characters.*20,000.*'evidence-first'.*--window", found.why)
    found = await Attributor(model, strategy=strategy, window=60_000).attribute(trajectory)
    assert found.step == 20


@pytest.mark.parametrize("window", [5_000, 20_000])
async def test_evidence_first_asks_no_longer_question_than_a_window(run, reader, window):
    trajectory, model = run(40, at=20, filler="la " * 400), reader().model
    found = await Attributor(model, window=window).attribute(trajectory)
    assert (found.role, found.step) == ("cleo", 20)
    assert max(len(call.messages[-1].content) for call in model.calls) < 1.2 * window + 2_000


async def test_many_candidates_are_shown_in_brief_rather_than_beyond_the_window(run, reader, known):
    trajectory, model = run(400, at=20, filler="la " * 2000), reader().model
    rows = [(seq, ROLES[seq % 3]) for seq in range(10, 400, 20)]
    await Attributor(model, window=30_000).attribute(trajectory, report=known(*rows))
    (call,) = model.calls
    assert len(call.messages[-1].content) < 36_000


def test_a_window_that_shows_nothing_is_refused(reader):
    with pytest.raises(UsageError, match="window=999"):
        Attributor(reader().model, window=999)
