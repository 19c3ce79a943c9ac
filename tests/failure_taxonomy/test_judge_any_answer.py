"""Whatever a judge answers about whatever trace, what is reported as a failure is really there."""

from __future__ import annotations

import asyncio
import json
import random
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.failure_taxonomy import MODES, Judge, annotate
from rolecraft.failure_taxonomy.evidence import quotable, verified
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, FunctionModel, ModelCall
from rolecraft.trajectories import Event, FailureFinding, Recorder, Trajectory
from rolecraft.trajectories.events import EVENT_KINDS

ROLES = ["", "ada", "ben", "user", "environment", "nobody", "two  words", "<|im_end|>"]
TEXTS = st.text(st.sampled_from("ab \n.<|>[]{}\"'\\é漢0"), max_size=60)
EVENTS = st.builds(
    Event,
    st.sampled_from(sorted(EVENT_KINDS - {"signal"})),
    role=st.sampled_from(ROLES),
    content=TEXTS.map(lambda text: f"{text} some words {text}" * 12),
    to=st.lists(st.sampled_from([*ROLES, "<all>"]), max_size=2).map(tuple),
)


def wild(seed: int, trajectory: Trajectory) -> FunctionModel:
    """A model that answers in the right form, and at random in everything else."""
    dice = random.Random(seed)
    events = trajectory.events

    def quote() -> str:
        text = quotable(dice.choice(events)) if events else ""
        start = dice.randrange(len(text) + 1)
        return dice.choice([text[start : start + dice.randrange(40)], "made up", "", text])

    def row(mode: str) -> dict[str, Any]:
        if events and dice.random() < 0.8:  # true, or nearly
            event = dice.choice(events)
            words = quotable(event)[: dice.choice([12, 30, 90])]
            return {
                "mode": mode,
                "verdict": "present",
                "role": event.role if dice.random() < 0.8 else "ben",
                "events": [event.seq] if dice.random() < 0.8 else [0],
                "quote": words if dice.random() < 0.8 else words[::-1],
            }
        return {
            "mode": mode,
            "verdict": dice.choice(["present", "present", "absent", "unknown", "maybe"]),
            "role": dice.choice(ROLES),
            "events": [dice.randrange(-1, len(events) + 1) for _ in range(dice.randrange(3))],
            "quote": quote(),
            "confidence": dice.choice([None, 0.5, 1, 2]),
        }

    lasting = {mode: row(mode) for mode in MODES}

    def reply(call: ModelCall) -> Completion:
        found = re.search(r"marker is (\w+)\.\Z", call.messages[0].content)
        assert found is not None
        if call.tools and dice.random() < 0.7:
            name = dice.choice(["list_events", "read_event", "search_events", "other"])
            given = {"event": dice.randrange(9), "text": dice.choice(["some words", "zz"])}
            given["first"] = dice.randrange(-2, 9)
            calls = [ToolCall(name, given, "1")]
            return Completion(text="", tool_calls=calls, finish_reason="tool_calls")
        answer = {
            "marker": found[1],
            "diagnosis": "who knows",
            "findings": [
                lasting[mode] if mode in lasting and dice.random() < 0.9 else row(mode)
                for mode in dice.sample([*MODES, "other"], k=12)
            ],
            "digest": quote(),
        }
        return Completion(text=dice.choice(["", "So: "]) + json.dumps(answer))

    return FunctionModel(reply)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(EVENTS, max_size=12),
    st.integers(0, 10**6),
    st.sampled_from([1, 3]),
    st.sampled_from(["all", "category"]),
    st.sampled_from([0, 5]),
)
def test_every_failure_that_is_reported_is_really_there(
    events: list[Event], seed: int, samples: int, grouping: Any, shots: int
) -> None:
    trajectory = Trajectory("t", {"task": "x"})
    recorder = Recorder(trajectory)
    for event in events:
        recorder.add(event)
    judge = Judge(
        wild(seed, trajectory),
        window=2000,
        samples=samples,
        grouping=grouping,
        shots=shots,
    )
    report = asyncio.run(annotate(trajectory, judge=judge))
    view = TraceView(trajectory)
    assert {finding.mode for finding in report.findings} == set(MODES)
    for finding in report.present:
        if finding.source.startswith("judge"):
            assert isinstance(verified(finding, view.by_seq), FailureFinding), finding
            assert any(finding.quote in quotable(view.by_seq[seq]) for seq in finding.events)
    assert all(finding.reason for finding in report.findings if finding.verdict == "unknown")
    assert report.opinion is not None
    assert 0 <= report.opinion.coverage <= 1
    json.loads(report.to_json())
