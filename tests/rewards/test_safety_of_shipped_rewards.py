"""Every reward that Rolecraft ships passes the safety suite, on runs that went well and that did
not. The signals are those that the environments name; one scenario is really played too."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft.cli._scenarios import SCENARIOS, find_scenario
from rolecraft.environments.web_research.examples import examples
from rolecraft.rewards import check_reward
from rolecraft.rewards.safety_played import check_scenario
from rolecraft.scenarios import web_research
from rolecraft.trajectories import Event, Signal, Trajectory, signal_event

MATHS: tuple[dict[str, float], ...] = (
    {"answer.given": 1, "answer.correct": 1, "code.runs": 1, "code.failed": 0},
    {"answer.given": 1, "answer.correct": 0, "code.runs": 2, "code.failed": 1},
)
PROGRAM: tuple[dict[str, float], ...] = (
    {"files.written": 2, "code.runs": 1, "example.passed": 1, "tests.passed": 4, "tests.failed": 0},
    {"files.written": 2, "code.runs": 1, "example.passed": 1, "tests.passed": 1, "tests.failed": 3},
)
DEBATE: tuple[dict[str, float], ...] = (
    {"debate.correct": 1, "debate.right_first": 0.5, "debate.corrected": 1, "debate.misled": 0},
    {"debate.correct": 0, "debate.right_first": 0.5, "debate.corrected": 0, "debate.misled": 1},
)
TUTORIAL: dict[str, float] = {
    "tutorial.chapters_asked": 4,
    "tutorial.chapters_promised": 4,
    "tutorial.chapters_written": 4,
    "tutorial.shortest_chapter": 300,
    "tutorial.broken_links": 0,
    "tutorial.in_language": 0.9,
}
PATCH: dict[str, float] = {
    "resolved": 1,
    "fail_to_pass.passed": 2,
    "fail_to_pass.failed": 0,
    "patch.applies": 1,
    "tampering": 0,
    "lines.added": 30,
    "lines.removed": 4,
    "ruff.before": 1,
    "ruff.after": 3,
    "seconds": 40,
    "cost": 0.4,
}
REPAIR: tuple[dict[str, float], ...] = (
    PATCH,
    PATCH | {"resolved": 0, "fail_to_pass.failed": 2, "fail_to_pass.passed": 0},
)
RUNS: dict[str, tuple[dict[str, float], ...]] = {
    "relay": (
        {"relay.register": 1, "relay.sum": 1, "relay.correct": 1},
        {"relay.register": 0, "relay.sum": 1, "relay.correct": 0},
    ),
    **dict.fromkeys(("maths_chat", "maths_prompt", "maths_team", "maths_voting"), MATHS),
    **dict.fromkeys(("programmer", "software_company", "software_company_cyclic"), PROGRAM),
    **dict.fromkeys(("software_engineering", "rehearsal"), REPAIR),
    "web_research": (
        {"answer.correct": 1, "information.quality": 0.5, "reasoning.chain": 0.5, "searches": 3},
        {"answer.correct": 0, "information.quality": 1, "reasoning.chain": 0, "searches": 3},
    ),
    **dict.fromkeys(("debate", "panel"), DEBATE),
    "tutorial": (TUTORIAL, TUTORIAL | {"tutorial.chapters_written": 1}),
}
FIXED = {
    # Whether a price is known is up to the model, whether there is ruff up to the machine.
    "software_engineering": ("cost", "ruff.before", "ruff.after"),
    "rehearsal": ("cost", "ruff.before", "ruff.after"),
}


def run(name: str, signals: dict[str, float], team: list[str]) -> Trajectory:
    trajectory = Trajectory(name, {"roles": [{"name": each} for each in team]})
    events = [Event("message", role="user", content="The task.")]
    for each in team:
        events.append(Event("message", role=each, content=f"What {each} says of the task."))
        events.append(Event("verify", role=each, data={"target": "it", "passed": None}))
    events.append(Event("error", role=team[0], content="it raised", data={"type": "ToolError"}))
    measured = [Signal(key, float(value)) for key, value in signals.items()]
    events += [signal_event(each) for each in [*measured, Signal("turns", 6.0, unit="turns")]]
    events.append(Event("stop", data={"reason": "finished"}))
    for seq, event in enumerate(events):
        event.seq = seq
    trajectory.write(events)
    return trajectory


def test_no_scenario_is_left_out() -> None:
    assert set(RUNS) == set(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_but_the_task_pays(name: str) -> None:
    scenario: Any = find_scenario(name, "examined")
    team = [role.name for role in scenario.team()]
    good, bad = (run(f"{name} {at}", signals, team) for at, signals in enumerate(RUNS[name]))
    assert scenario.reward(good).value > scenario.reward(bad).value
    report = check_reward(scenario.reward, good, bad, fixed=FIXED.get(name, ()))
    assert len(report.tried) > 40


async def test_a_researcher_that_refuses_says_nothing_or_praises_the_judge_earns_no_more() -> None:
    lens = examples()["lens"].question.task()
    report = await check_scenario(web_research.rehearsal(), lens)
    played = {each.manipulation: each.after for each in report.tried if each.what == "played"}
    assert played == {"refuse": 0.0, "say nothing": 0.0, "praise the judge": 0.0}
