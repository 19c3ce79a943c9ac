"""Logs of others that record tool calls but no actions: what `repetition` says of them."""

from __future__ import annotations

from typing import Any

from rolecraft.failure_taxonomy.detectors import Repetition
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories import Event, FailureFinding, Trajectory


def verdict(*events: Event, records: tuple[str, ...]) -> FailureFinding:
    for seq, event in enumerate(events):
        event.seq = seq
    trajectory = Trajectory("log", {"records": list(records)}, list(events))
    (finding,) = Repetition().judge(TraceView(trajectory))
    return finding


def call(tool: str, at: int, **arguments: Any) -> tuple[Event, Event]:
    """A call as event number `at`, and its result."""
    return (
        Event("tool_call", role="ann", data={"tool": tool, "arguments": arguments}),
        Event("tool_result", role="ann", content=f"{tool}: yes", data={"tool": tool}, cause=at),
    )


TOOLS = ("message", "tool_call", "tool_result")
SAID = Event("message", role="user", content="Find the lamp.")


def test_tool_calls_that_all_differ_are_no_repetition() -> None:
    found = verdict(SAID, *call("find", 1, name="lamp"), *call("open", 3), records=TOOLS)
    assert found.verdict == "absent"


def test_the_same_call_with_the_same_result_is_one() -> None:
    found = verdict(
        SAID, *call("find", 1, name="lamp"), *call("find", 3, name="lamp"), records=TOOLS
    )
    assert found.verdict == "present"


def test_where_no_call_came_to_an_end_nothing_is_denied_and_the_reason_is_true() -> None:
    found = verdict(SAID, records=TOOLS)
    assert (found.verdict, found.reason) == (
        "unknown",
        "no tool call that came to an end is on record, and no turn came again",
    )
    found = verdict(SAID, call("find", 1)[0], records=TOOLS)
    assert found.verdict == "unknown"
    found = verdict(SAID, records=("message",))
    assert "the format records neither actions nor tool calls" in found.reason
