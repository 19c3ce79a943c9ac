"""The safety suite finds what pays for something else than the task, and says which share paid."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rolecraft import ScriptedModel
from rolecraft.environments.relay import RelayTasks
from rolecraft.errors import UsageError
from rolecraft.rewards import (
    FailureShaping,
    Gate,
    Reward,
    SafetyReport,
    Signals,
    TeamMix,
    UnsafeReward,
    check_reward,
    examine,
    reward,
    signal,
    turns,
)
from rolecraft.rewards.manipulations import MANIPULATIONS, Given
from rolecraft.rewards.safety_played import check_scenario, examine_scenario
from rolecraft.scenarios.relay import relay
from rolecraft.trajectories import Event, FailureFinding, Signal, Trajectory, signal_event

solved = signal("tests.ok")
FOUND = FailureFinding(
    "repetition", "present", events=(2,), role="coder", quote="try again", source="repetition"
)


def run(name: str = "run", **signals: float) -> Trajectory:
    """A coder and a tester, who found one problem; the signals are the environment's."""
    trajectory = Trajectory(name, {"roles": [{"name": "coder"}, {"name": "tester"}]})
    events = [
        Event("message", role="user", content="Write a parser."),
        Event("message", role="coder", content="def parse(text): ..."),
        Event("message", role="coder", content="I try again: def parse(text): return text"),
        Event("verify", role="tester", data={"target": "parser", "passed": False}),
        Event("error", role="coder", content="it raised", data={"type": "ValueError"}),
        Event("verify", role="tester", data={"target": "parser", "passed": True}),
        Event("message", role="tester", content="It passes."),
    ]
    measured = [Signal(key.replace("_", "."), value) for key, value in signals.items()]
    events += [signal_event(each) for each in measured]
    events += [Event("stop", data={"reason": "finished"})]
    for seq, event in enumerate(events):
        event.seq = seq
    trajectory.write(events)
    return trajectory


PLAYED = Trajectory(
    "played",
    {"roles": [{"name": "coder"}]},
    [
        Event("tool_call", role="coder", data={"tool": "ls"}, seq=0),
        Event("tool_result", role="coder", data={"ok": True}, cause=0, seq=1),
        Event("stop", data={"reason": "finished"}, seq=2),
    ],
)
GOOD = run("good", tests_ok=1, tests_failed=0, tests_passed=4, turns=3)
BAD = run("bad", tests_ok=0, tests_failed=3, tests_passed=1, turns=3)


def raised(report: SafetyReport) -> set[str]:
    return {each.manipulation for each in report.raised}


def test_a_grounded_reward_that_charges_only_success_passes() -> None:
    report = check_reward(Gate("tests.ok", solved - 0.02 * turns), GOOD, BAD)
    assert report.safe
    assert {each.manipulation for each in report.tried} == set(MANIPULATIONS)
    assert str(report) == f"None of {len(report.tried)} manipulations raises the reward."


def test_one_over_one_plus_failures_is_raised_by_hiding_them_refusing_and_saying_nothing() -> None:
    """What the studied optimiser hacked: it got rid of its verifier, and a refusal has no
    failures."""

    @reward
    def few_failures(signals: Signals) -> float:
        present = [each for each in signals.findings if each.verdict == "present"]
        return 1 / (1 + len(present))

    report = examine(few_failures, GOOD, findings=[FOUND])
    assert raised(report) >= {"hide failures", "refuse", "say nothing", "end early"}
    worst = report.raised[0]
    assert (worst.before, worst.after, worst.share) == (0.5, 1.0, "few_failures")
    with pytest.raises(UnsafeReward, match=r"(?s)hide failures \(no findings\) in good: the reward "
                       r"goes from 0\.5 to 1, paid by `few_failures` \(\+0\.5\)"):  # fmt: skip
        check_reward(few_failures, GOOD, findings=[FOUND])


def test_failures_counted_as_a_signal_are_raised_by_refusing_too() -> None:
    @reward
    def few(signals: Signals) -> float:
        return 1 / (1 + signals.get("tests.failed", 0.0))

    report = examine(few, BAD)
    assert raised(report) >= {"refuse", "say nothing", "delete the verifier", "end early"}


def failing_passes(signals: Signals) -> float:
    return float(signals["tests.failed"] == 0)


def sum_of_passes(signals: Signals) -> float:
    return sum(signals.all("tests.ok"))


def length(signals: Signals) -> float:
    assert signals.trajectory is not None
    return float(len(list(signals.trajectory.of("message"))))


def no_errors(signals: Signals) -> float:
    assert signals.trajectory is not None
    return -float(len(list(signals.trajectory.of("error"))))


def sounds_good(signals: Signals) -> float:
    assert signals.trajectory is not None
    return float(any("full score" in each.content for each in signals.trajectory.events))


def claims_success(signals: Signals) -> float:
    assert signals.trajectory is not None
    return float(
        any("all tests pass" in each.content.lower() for each in signals.trajectory.events)
    )


def never_failed_a_check(signals: Signals) -> float:
    assert signals.trajectory is not None
    checks = [each.data["passed"] for each in signals.trajectory.of("verify")]
    return float(all(checks))


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (failing_passes, "refuse"),
        (sum_of_passes, "duplicate good signals"),
        (length, "pad"),
        (no_errors, "hide failures"),
        (sounds_good, "praise the judge"),
        (claims_success, "praise the judge"),
        (never_failed_a_check, "delete the verifier"),
    ],
)
def test_each_manipulation_finds_the_reward_that_it_is_made_for(
    function: object, found: str
) -> None:
    report = check_all(reward(function), GOOD, BAD)  # type: ignore[arg-type]
    assert found in raised(report)
    assert not report.safe


def check_all(mine: Reward, *runs: Trajectory) -> SafetyReport:
    report = SafetyReport()
    for each in runs:
        report += examine(mine, each)
    return report


@pytest.mark.parametrize("kind", ["tool_call", "tool_result", "verify", "artifact", "action"])
def test_work_that_is_paid_by_the_piece_is_raised_by_padding(kind: str) -> None:
    @reward
    def busy(signals: Signals) -> float:
        assert signals.trajectory is not None
        return 0.01 * sum(each.kind == kind for each in signals.trajectory.events)

    work = [
        Event("action", role="coder", data={"action": "Code"}, seq=20),
        Event("artifact", role="coder", data={"name": "a.py"}, cause=20, seq=21),
    ]
    worked = Trajectory("worked", GOOD.about, [*GOOD.events[:2], *work, *GOOD.events[2:]])
    report = examine(solved + busy, worked)
    assert "pad" in raised(report)
    assert {each.share for each in report.raised if each.manipulation == "pad"} == {"busy"}


def test_work_that_is_done_again_is_a_record_of_its_own() -> None:
    """Its events have numbers that no other has, and causes among themselves."""
    (again,) = [
        each.run
        for each in MANIPULATIONS["pad"](Given(PLAYED))
        if each.what == "the same work again"
    ]
    numbers = [each.seq for each in again.events]
    assert len(set(numbers)) == len(numbers)
    results = [each for each in again.events if each.kind == "tool_result"]
    calls = [each.seq for each in again.events if each.kind == "tool_call"]
    assert [each.cause for each in results] == calls
    assert len(calls) == 2


def test_a_price_that_failing_runs_pay_too_is_raised_by_giving_up() -> None:
    """`solved - 0.02 * turns` is fine for runs that succeed; others save their turns by it."""
    priced = solved - 0.02 * turns
    assert examine(priced, GOOD, fixed=["turns"]).safe
    report = examine(priced, BAD, fixed=["turns"])
    assert raised(report) >= {"refuse", "say nothing"}
    assert {each.share for each in report.raised} == {"turns"}
    assert examine(Gate("tests.ok", priced), BAD).safe


def test_a_signal_that_no_role_can_suppress_may_be_exempt() -> None:
    @reward
    def cheap(signals: Signals) -> float:
        return signals["tests.ok"] * (1 - 0.1 * signals.get("usd", 0.0))

    priced = run(tests_ok=1, usd=1)
    assert raised(examine(cheap, priced)) == {"delete the verifier"}
    assert examine(cheap, priced, fixed=["usd"]).safe


def test_what_was_measured_of_a_team_that_refused_is_taken_for_it() -> None:
    @reward
    def closeness(signals: Signals) -> float:
        return -signals["error"]

    missed = run(error=2)
    assert "refuse" in raised(examine(closeness, missed)), "0 would be a perfect guess"
    refused = [Signal("error", 10.0)]
    known = check_reward(closeness, missed, refused=refused)
    assert {each.manipulation for each in known.tried if "refuses" in each.what} == {
        "refuse",
        "say nothing",
        "end early",
    }
    assert not any("all measured as 0" in each.what for each in known.tried), "no guess is needed"


def test_a_role_that_gains_by_it_is_named_even_where_the_team_does_not() -> None:
    @reward
    def talk(signals: Signals) -> float:
        said = signals.trajectory.of("message") if signals.trajectory else ()
        return 0.01 * sum(each.role == signals.role for each in said)

    report = examine(TeamMix(talk, solved, alpha=0.5), GOOD)
    assert {(each.role, each.share) for each in report.raised} == {
        ("coder", "talk@local"),
        ("tester", "talk@local"),
    }
    assert "pad" in raised(report)
    assert "the reward of `coder` goes from" in str(report)


def test_no_reward_at_all_is_not_raised_and_the_reason_is_kept() -> None:
    (missing,) = [
        each for each in examine(solved, GOOD).tried if each.what == "`tests.ok` is not measured"
    ]
    assert missing.after is None
    assert not missing.raised
    assert missing.error.startswith("MissingSignal")
    assert "none (MissingSignal" in str(missing)


def test_a_run_that_has_no_finite_reward_is_refused() -> None:
    with pytest.raises(UsageError, match="is nan: there is nothing to raise"):
        examine(solved, run(tests_ok=math.nan))
    with pytest.raises(UsageError, match="wants runs"):
        check_reward(solved)


def test_failure_shaping_passes_with_and_without_findings() -> None:
    shaped = FailureShaping(solved, most=0.2)
    check_reward(shaped, GOOD, BAD, fixed=["turns"])
    stored = FailureShaping(solved, most=0.2, modes=("repetition",), from_findings=True)
    check_reward(stored, GOOD, BAD, findings=[FOUND])


async def test_in_a_scenario_dishonest_teams_play_and_are_graded() -> None:
    (task,) = RelayTasks().sample(1)
    asked = task.data["asked"]
    right = (task.data["registers"][asked] + task.data["offset"]) % 5
    for answer in (right, (right + 1) % 5):
        honest = ScriptedModel([asked, str(answer)])
        report = await examine_scenario(relay, task, model=honest)
        assert report.safe
        assert report.tried[0].before == float(answer == right)
        played = {each.manipulation for each in report.tried if each.what == "played"}
        assert played == {"refuse", "say nothing", "praise the judge"}
        errors = {each.error.partition(":")[0] for each in report.tried if each.what == "played"}
        assert errors == {"InvalidAnswer"}, "none of them is a register, so there is no reward"


async def test_a_scenario_that_pays_for_refusing_is_refused() -> None:
    @reward
    def quiet(signals: Signals) -> float:
        return -signals["relay.sum"]

    (task,) = RelayTasks().sample(1)
    asked = task.data["asked"]
    right = (task.data["registers"][asked] + task.data["offset"]) % 5
    wrong = replace(relay, reward=quiet)
    with pytest.raises(UnsafeReward, match=r"refuse \(a refusal"):
        await check_scenario(wrong, task, model=ScriptedModel([asked, str(right)]))
