"""Whatever a trace holds, annotating it ends in a report whose evidence holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy import MODES, annotate
from rolecraft.failure_taxonomy.attribution import decisive
from rolecraft.failure_taxonomy.detectors import Constraints, Reset
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import windows
from rolecraft.trajectories import Artifact, Event, Recorder, Trajectory
from rolecraft.trajectories.events import EVENT_KINDS

ROLES = st.sampled_from(["", "user", "environment", "ada", "ben", "QaEngineer"])
WORDS = st.sampled_from(["tests", "a.py", "answer", "Write", "read_file", "run_tests", "x y", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=4,
)
_KEYS = (
    "action fields tool arguments ok target passed constraint role name value actions reason "
    "ends read_only exitcode at_least"
)
KEYS = st.sampled_from(_KEYS.split())
EVENTS = st.builds(
    Event,
    st.sampled_from(sorted(EVENT_KINDS)),
    role=ROLES,
    content=st.sampled_from(
        ["", "?", "no", "x=1", "Done.", "Which one?", "a long sentence about nothing at all"]
    ),
    to=st.lists(st.sampled_from(["<all>", "ada", "ben", "<none>", "lib.Role"])).map(tuple),
    data=st.dictionaries(KEYS, JSON, max_size=4),
    cause=st.none() | st.integers(0, 20),
    artifact=st.none() | st.builds(Artifact, WORDS, st.sampled_from(["0", "1"])),
)
GOALS = st.dictionaries(
    st.sampled_from(["verify", "artifacts", "answer", "signal", "at_least", "at_most"]), JSON
)
ABOUT = st.fixed_dictionaries(
    {},
    optional={
        "goal": GOALS | JSON,
        "roles": JSON,
        "constraints": JSON | st.lists(st.dictionaries(KEYS | st.just("signal"), JSON)),
        "task": JSON,
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=20), ABOUT)
def test_no_trace_breaks_a_detector(events: list[Event], about: dict[str, Any]) -> None:
    """`annotate` also raises if a detector's finding names what is not there."""
    for seq, event in enumerate(events):
        event.seq = seq
    trajectory = Trajectory("any", about, events)
    report = asyncio.run(annotate(trajectory))
    assert {finding.mode for finding in report.findings} == set(MODES)
    assert report.summary()
    parts = windows(TraceView.of(trajectory), size=1000, overlap=100)
    assert len(parts) >= 1


async def test_a_constraint_of_a_mode_that_does_not_exist_is_named() -> None:
    data = {"constraint": "polite", "passed": False, "mode": "rudeness"}
    trajectory = Trajectory("t", {}, [Event("verify", role="environment", data=data, seq=0)])
    with pytest.raises(TraceError, match="constraint `polite`: Failure mode 'rudeness'"):
        await annotate(trajectory)


@pytest.mark.slow
def test_the_cost_of_a_trace_grows_with_its_length_and_no_faster(growth: Any) -> None:
    """From 2,000 to 40,000 events the time for each less than triples: caches, and no squares."""

    def talk(length: int) -> Trajectory:
        trajectory = Trajectory("long", {"goal": {"verify": "tests"}})
        recorder = Recorder(trajectory)
        for number in range(length // 4):
            role = f"r{number % 7}"
            recorder.add(Event("action", role=role, data={"action": "Work"}))
            call = {"tool": "read_file", "arguments": {"n": number % 50}}
            seq = recorder.add(Event("tool_call", role=role, data=call))
            recorder.add(Event("tool_result", role=role, content=f"{number % 50}", cause=seq))
            recorder.add(Event("message", role=role, content=f"{number % 100} is it. " * 20))
        return trajectory

    def annotates(length: int) -> Callable[[], object]:
        trajectory = talk(length)
        return lambda: asyncio.run(annotate(trajectory))

    growth(annotates, 2_000, 40_000, at_most=20 * 3)


def test_the_decisive_failure_is_found_in_one_pass_over_all_findings(
    growth: Any,
) -> None:
    """Eight times as many failures, all made good in the end, take no more time for each."""

    def decides(count: int) -> Callable[[], object]:
        broken = {"target": "tone", "constraint": "polite", "passed": False}
        events = [Event("verify", role="ada", data=broken, seq=seq) for seq in range(count)]
        passed = {"target": "tests", "passed": True}
        events.append(Event("verify", role="ada", data=passed, seq=count))
        view = TraceView(Trajectory("long", {"goal": {"verify": "tests"}}, events))
        findings = Constraints().judge(view)
        assert len(findings) == count

        def work() -> None:
            assert decisive(findings, view) is None

        return work

    growth(decides, 2_400, 19_200, at_most=8 * 4)


def test_many_resets_take_time_in_proportion_to_their_number(growth: Any) -> None:
    def judges(count: int) -> Callable[[], object]:
        events = []
        for number in range(4 * count):
            kind, text = ("reset", "") if number % 4 == 3 else ("message", f"Word {number}.")
            events.append(Event(kind, role="ada", content=text, seq=number))

        def work() -> None:
            assert len(Reset().judge(TraceView(Trajectory("long", {}, events)))) == count

        return work

    growth(judges, 800, 12_800, at_most=16 * 4)
