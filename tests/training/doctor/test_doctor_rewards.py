"""The doctor finds rewards that cannot be trained on, and groups that say nothing."""

from __future__ import annotations

import itertools
import math

import pytest

from rolecraft.rewards import Gate, Reward, Signals, reward, signal, turns
from rolecraft.rewards.breakdown import RewardBreakdown
from rolecraft.training.doctor.rewards import check_groups, check_safety, check_values
from rolecraft.trajectories import Event, Signal, Trajectory, signal_event


def run(name: str, **signals: float) -> Trajectory:
    events = [
        Event("message", role="user", content="Write a parser."),
        Event("message", role="coder", content="def parse(text): ..."),
        Event("verify", role="tester", data={"target": "parser", "passed": True}),
        *(signal_event(Signal(key.replace("_", "."), value)) for key, value in signals.items()),
        Event("stop", data={"reason": "finished"}),
    ]
    for seq, event in enumerate(events):
        event.seq = seq
    return Trajectory(name, {"roles": [{"name": "coder"}, {"name": "tester"}]}, events)


RUNS = [
    run("good", tests_ok=1, tests_failed=0, turns=3),
    run("bad", tests_ok=0, tests_failed=3, turns=3),
]
_COUNT = itertools.count()


@reward
def nothing_failed(signals: Signals) -> float:
    """Pays for getting rid of the verifier: no tests, no failures."""
    return 1 / (1 + signals.get("tests.failed", 0.0))


@reward
def no_number(signals: Signals) -> float:
    return math.nan


@reward
def another_each_time(signals: Signals) -> float:
    return float(next(_COUNT))


@reward
def unmeasured(signals: Signals) -> float:
    return signals["who.knows"]


def test_a_sound_reward_passes_all() -> None:
    sound = Gate("tests.ok", signal("tests.ok") - 0.02 * turns)
    assert check_values(sound, RUNS).verdict == "ok"
    safe = check_safety(sound, RUNS)
    assert safe.verdict == "ok", safe
    assert safe.numbers["tried"] > 10


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (no_number, "is nan"),
        (another_each_time, "scored again"),
        (unmeasured, "MissingSignal"),
    ],
)
def test_rewards_that_are_no_numbers_not_repeatable_or_missing_fail(
    broken: Reward, says: str
) -> None:
    finding = check_values(broken, RUNS)
    assert finding.verdict == "fail"
    assert says in finding.found


def test_shares_that_do_not_add_up_fail() -> None:
    class Leaks(Reward):
        def shares(self, signals: Signals) -> dict[str, float]:
            return {}

        def __call__(self, *given: object, **more: object) -> RewardBreakdown:
            return RewardBreakdown(1.0, {"tests": 0.25, "turns": 0.25})

    finding = check_values(Leaks(), RUNS)
    assert finding.verdict == "fail"
    assert "add up to 0.5" in finding.found


def test_a_reward_that_pays_for_deleting_the_verifier_fails_and_says_so() -> None:
    finding = check_safety(nothing_failed, RUNS)
    assert finding.verdict == "fail"
    assert "delete the verifier" in finding.found


def test_groups_of_equal_rewards_fail_and_a_minority_warns() -> None:
    equal, differ = [0.0] * 8, [0.0] * 7 + [1.0]
    assert check_groups({"a": equal, "b": equal}, 8).verdict == "fail"
    some = check_groups({"a": equal, "b": equal, "c": differ}, 8)
    assert (some.verdict, some.numbers["differ"]) == ("warn", 1)
    assert check_groups({"a": equal, "b": differ}, 8).verdict == "ok"
    assert check_groups({"a": [1.0]}, 8).verdict == "skipped"
