"""Who left something open at the end, and what of it the events do not decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rolecraft.failure_taxonomy import annotate
from rolecraft.trajectories import Artifact, Event, FailureFinding, Signal, Trajectory, signal_event

Make = Callable[..., Trajectory]


def said(role: str, content: str, **fields: Any) -> Event:
    return Event("message", role=role, content=content, **fields)


def checked(target: str, passed: bool | None, role: str = "tester", content: str = "") -> Event:
    return Event("verify", role=role, content=content, data={"target": target, "passed": passed})


async def premature(trajectory: Trajectory) -> FailureFinding:
    (finding,) = [f for f in (await annotate(trajectory)).findings if f.mode == "premature_end"]
    return finding


def stop() -> Event:
    return Event("stop", data={"reason": "finished"})


CLOSE = "Great job, all of you."
ROLES = [{"name": name} for name in ("solver", "writer", "boss", "tester")]


@pytest.mark.parametrize(
    ("events", "goal", "role", "quote"),
    [
        (
            [
                Event("action_swap", role="writer", data={"actions": ["A", "B"]}),
                Event("action", role="writer", data={"action": "A"}),
            ],
            None,
            "writer",
            '"actions":["A","B"]',
        ),
        ([], {"answer": "solver"}, "solver", ""),
        (
            [Event("action", role="solver", data={"action": "Solve"})],
            {"answer": "solver"},
            "solver",
            '"action":"Solve"',
        ),
        ([checked("tests", False, content="3 tests fail")], None, "tester", "3 tests fail"),
        ([checked("tests", False, content="no")], None, "tester", '"target":"tests"'),
        ([said("writer", "Which unit?", to=("solver",))], None, "writer", "Which unit?"),
        ([said("writer", "Done.")], {"artifacts": ["a.py"]}, "boss", CLOSE),
        ([said("writer", "Done.")], {"verify": "a.py"}, "boss", CLOSE),
    ],
)
async def test_a_finding_names_who_left_it_open_and_not_who_spoke_last(
    trace: Make, events: list[Event], goal: Any, role: str, quote: str
) -> None:
    finding = await premature(trace(*events, said("boss", CLOSE), stop(), goal=goal, roles=ROLES))
    assert (finding.verdict, finding.role, finding.quote) == ("present", role, quote)


@pytest.mark.parametrize(
    ("events", "goal", "reason"),
    [
        ([checked("tests", None)], {"verify": "tests"}, "came to no result"),
        (
            [
                checked("tests", False),
                Event("artifact", role="writer", artifact=Artifact("a", "0")),
            ],
            {"verify": "tests"},
            "not checked again",
        ),
        ([checked("tests", False, "environment")], {"verify": "tests"}, "that a role knew"),
        (
            [Event("tool_call", role="writer", data={"tool": "run_tests"})],
            {"verify": "tests"},
            "event 0 may have been the check of `tests`",
        ),
        (
            [signal_event(Signal("tests.failed", 3.0))],
            {"signal": "tests.failed", "at_most": 0},
            "signal `tests.failed` was reached",
        ),
        (
            [said("writer", "Here it is. Do you like it?", to=("boss",))],
            {"answer": "writer"},
            "event 0 may be a question",
        ),
    ],
)
async def test_what_the_events_do_not_decide_is_unknown(
    trace: Make, events: list[Event], goal: Any, reason: str
) -> None:
    finding = await premature(trace(*events, stop(), goal=goal, roles=ROLES))
    assert finding.verdict == "unknown"
    assert reason in finding.reason


async def test_a_failed_check_is_excused_by_changes_of_its_own_file_only(trace: Make) -> None:
    def wrote(name: str, content: str) -> Event:
        return Event("artifact", role="writer", artifact=Artifact(name, content))

    async def after(name: str) -> str:
        failed = checked("a.py", False)
        goal = {"artifacts": ["a.py", "b.py"]}
        events = wrote("a.py", "0"), wrote("b.py", "0"), failed, wrote(name, "1"), stop()
        return (await premature(trace(*events, goal=goal))).verdict

    assert await after("b.py") == "present"
    assert await after("a.py") == "absent"


async def test_a_courtesy_leaves_nothing_open(trace: Make) -> None:
    poem = said("writer", "Here is the poem. Any questions?", to=("boss",))
    finding = await premature(trace(poem, stop(), goal={"answer": "writer"}, roles=ROLES))
    assert finding.verdict == "absent"
