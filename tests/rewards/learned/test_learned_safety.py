"""The reward safety suite on learned rewards: what it finds, and what it does not."""

from __future__ import annotations

import pytest

from rolecraft.rewards import Gate
from rolecraft.rewards.learned import (
    LearnedReward,
    NetSettings,
    Observation,
    Preference,
    directions,
    fit,
    observe,
)
from rolecraft.rewards.safety import UnsafeReward, check_reward
from rolecraft.trajectories import Event, Signal, Trajectory, signal_event


def run(passed: float, usd: float, *, errors: int = 0) -> Trajectory:
    about = {"roles": [{"name": "dev"}]}
    events = [
        Event("message", role="user", content="Mend the parser"),
        *[Event("error", role="dev", content="timed out") for _ in range(errors)],
        Event("message", role="dev", content="A patch"),
        signal_event(Signal("tests.passed", passed)),
        signal_event(Signal("usd", usd)),
        Event("stop", data={"reason": "finished"}),
    ]
    for seq, event in enumerate(events):
        event.seq = seq
    return Trajectory(f"{passed:g} for ${usd:g}", about, events)


RUNS = [run(i % 5 / 4, i / 10, errors=i % 3) for i in range(20)]


def learned(
    *names: str, higher: tuple[str, ...] = (), lower: tuple[str, ...] = ()
) -> LearnedReward:
    seen = [observe(each, name=each.id) for each in RUNS]
    labels = [Preference(a, b, _answer(a, b)) for a, b in zip(seen, seen[7:], strict=False)]
    shape = NetSettings(directions(names, higher=higher, lower=lower))
    return fit(LearnedReward.untrained(shape, seen), labels)


def _answer(a: Observation, b: Observation):
    def worth(each: Observation) -> float:
        return 2 * each.values["tests.passed"] - each.values["usd"]

    return "a" if worth(a) > worth(b) else "b"


def test_nothing_that_a_team_does_to_its_record_pays_where_more_is_better():
    check_reward(learned(higher=("tests.passed",)), *RUNS[:6])


def test_a_cost_is_safe_where_it_counts_only_once_the_task_is_done():
    """Alone it is not: a run that fails anyway saves the cost by giving up."""
    costly = learned(higher=("tests.passed",), lower=("usd",))
    good = [each for each in RUNS if each.signals[0].value == 1.0]
    check_reward(costly, *good)
    failed = run(0.0, 1.9)
    with pytest.raises(UnsafeReward, match="paid by `usd`"):
        check_reward(costly, failed)
    least = min(costly(each).value for each in RUNS)
    check_reward(Gate("tests.passed", costly, otherwise=least - 1.0), failed, *good)


def test_features_that_count_failures_are_found_out_and_never_looked_at_unasked():
    counting = learned("run.errors", higher=("tests.passed",))
    with pytest.raises(UnsafeReward, match="hide failures"):
        check_reward(counting, run(0.5, 1.0, errors=2))
