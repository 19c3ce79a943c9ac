"""What came of a run stands in its first lines: its error or limit, and what was measured."""

from __future__ import annotations

import pytest

from rolecraft.trajectories import Event, Signal, Trajectory, signal_event
from rolecraft.viewer.report import trajectory_page
from rolecraft.viewer.result import failure_sentences, measured_sentences

TOLD = Event("message", role="user", content="A poem", to=("Writer",))
FIRE = Event("error", role="Writer", content="it burns", data={"type": "OSError"}, time=2)


def _run(*events: Event, stop: str = "", **about: object) -> Trajectory:
    ends = [Event("stop", data={"reason": stop}, time=2)] if stop else []
    recorded = [TOLD, *events, *ends]
    for seq, event in enumerate(recorded):
        event.seq = seq
    return Trajectory("poem", dict(about), recorded)


def test_the_errors_of_the_last_round_are_told_and_earlier_ones_are_not():
    early = Event("error", role="Writer", content="caught", data={"type": "KeyError"}, time=1)
    acting = Event("error", role="Ann", content="no\nink", data={"type": "E", "action": "Draft"})
    acting.time = 2
    run = _run(early, FIRE, acting, stop="error")
    assert failure_sentences(run) == [
        "Error in Writer: OSError: it burns",
        "Error in Draft of Ann: E: no ink",
    ]


def test_many_errors_are_counted():
    run = _run(*(Event("error", content=str(n), data={"type": "E"}) for n in range(9)))
    run.events.append(Event("stop", data={"reason": "error"}))
    assert failure_sentences(run)[-2:] == ["Error: E: 2", "… and 6 more errors."]


def test_a_run_that_went_on_after_an_error_has_not_failed():
    assert failure_sentences(_run(FIRE, stop="idle")) == []
    assert failure_sentences(_run(FIRE)) == []


def test_what_could_not_be_measured_says_why():
    broke = Event("error", content="no sandbox", data={"type": "InfrastructureFailure"})
    assert failure_sentences(_run(broke, stop="idle")) == [
        "Error: InfrastructureFailure: no sandbox"
    ]


def test_the_last_limit_is_told():
    limits = [Event("limit", content=text, data={}) for text in ("2 calls", "3 calls")]
    assert failure_sentences(_run(*limits, stop="limit")) == ["Limit reached: 3 calls"]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ({"signal": "solved", "at_least": 1}, ["Task not done: solved = 0, wanted at least 1"]),
        ({"signal": "solved", "at_most": 0}, ["Task done: solved = 0"]),
        ({"signal": "other", "at_least": 1}, []),
        ({"verify": "tests"}, []),
        ("odd", []),
    ],
)
def test_the_outcome_is_said_where_the_header_says_what_tells_it(outcome, expected):
    run = _run(signal_event(Signal("solved", 0.0)), stop="idle", outcome=outcome)
    assert measured_sentences(run) == [*expected, "Measured: solved = 0"]


def test_what_the_environment_found_wanting_says_why():
    """A score below 1 had its reason in the events alone. Roles' own checks are not among them."""
    said = "Links that do not hold: step 3."
    data = {"target": "reasoning", "passed": False}
    checks = [
        Event("verify", content="2 failed", data={"target": "tests", "passed": False}, role="Ann"),
        Event("verify", content="It is.", data={"target": "answer", "passed": True}),
        Event("verify", content="at first", data=data),
        Event("verify", content=said, data=data),
    ]
    run = _run(*checks, signal_event(Signal("solved", 0.0)), stop="idle")
    assert measured_sentences(run) == ["Measured: solved = 0", f"Check of reasoning: {said}"]


def test_the_page_has_both_before_its_tables():
    run = _run(FIRE, signal_event(Signal("solved", 0.0)), stop="error")
    page = trajectory_page(run)
    for sentence in ("Error in Writer: OSError: it burns", "Measured: solved = 0"):
        assert page.index(sentence) < page.index("Who took part")
