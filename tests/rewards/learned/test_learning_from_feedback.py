"""The outer level: fits follow the user, as far as trust reaches, and can be undone."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from rolecraft.errors import UsageError
from rolecraft.rewards.learned import (
    GuidedReward,
    LearnedReward,
    NetSettings,
    Observation,
    Preference,
    Rating,
    TrustSettings,
    bilevel,
    directions,
    examine,
    fit,
    pairs_to_ask,
    runs_to_rate,
)
from rolecraft.rewards.learned.asking import Pair
from rolecraft.rewards.learned.feedback import Label, held_out
from rolecraft.rewards.learned.fitting import label_tensors, negative_log_likelihood
from rolecraft.trajectories import Signal, Trajectory, signal_event

WISH = {"a": 2.0, "b": -1.0, "c": 0.5, "d": 0.0}


def worth(run: Observation) -> float:
    return sum(weight * run.values[name] for name, weight in WISH.items())


def make_runs(count: int, seed: int = 0) -> list[Observation]:
    draw = random.Random(seed)
    return [
        Observation({name: draw.gauss(0, 1) for name in WISH}, "", f"{seed}/{i}")
        for i in range(count)
    ]


def honest(a: Observation, b: Observation) -> Preference:
    return Preference(a, b, "a" if worth(a) > worth(b) else "b")


def pairs(runs: list[Observation]) -> list[Label]:
    return [honest(a, b) for a, b in zip(runs[::2], runs[1::2], strict=True)]


def untrained(runs: list[Observation], **options) -> LearnedReward:
    shape = NetSettings(directions(WISH, higher=["a"], lower=["b"]), **options)
    return LearnedReward.untrained(shape, runs)


RUNS = make_runs(240)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_noiseless_pairs_teach_a_linear_preference():
    reward = fit(untrained(RUNS), pairs(RUNS[:160]))
    unseen = examine(reward, pairs(RUNS[160:]))
    assert unseen.labels == 40
    assert unseen.agreement is not None
    assert unseen.agreement >= 0.9
    weighs = reward.weigh()
    assert weighs["a"] == max(weighs.values())
    # Of signals in log-odds a standard deviation only the proportions can be known.
    assert weighs["b"] / weighs["a"] == pytest.approx(0.5, abs=0.15)
    assert weighs["c"] / weighs["a"] == pytest.approx(0.25, abs=0.15)
    assert abs(weighs["d"]) / weighs["a"] < 0.15


def test_satisfaction_teaches_it_too_and_degrees_rise_with_the_value():
    def rated(runs):
        edges = (-2.0, -0.7, 0.7, 2.0)
        return [Rating(run, 1 + sum(worth(run) > edge for edge in edges)) for run in runs]

    reward = fit(untrained(RUNS), rated(RUNS[:120]))
    guess = math.log(5)
    assert examine(reward, rated(RUNS[120:])).nats < 0.5 * guess
    agreement = examine(reward, pairs(RUNS[120:])).agreement
    assert agreement is not None
    assert agreement >= 0.9


def test_the_probabilities_of_the_five_degrees_add_up_to_1():
    reward = fit(untrained(RUNS), [Rating(RUNS[0], 4), Rating(RUNS[1], 1)])
    total = torch.zeros(5, dtype=torch.float64)
    for degree in range(1, 6):
        tensors = label_tensors(reward, [Rating(RUNS[2], degree)])
        _, nats_ES = negative_log_likelihood(reward.weights, reward.settings, tensors)
        total += torch.exp(-nats_ES[:, 0])
    assert total.tolist() == pytest.approx([1.0] * 5)


def test_which_of_two_stands_first_changes_nothing():
    labels = pairs(RUNS[:40])
    turned = [
        Preference(x.b, x.a, "b" if x.answer == "a" else "a")
        for x in labels
        if isinstance(x, Preference)
    ]
    first, second = fit(untrained(RUNS), labels), fit(untrained(RUNS), turned)
    assert first.values(RUNS) == pytest.approx(second.values(RUNS), abs=1e-6)
    forth, back = first.preference(RUNS[0], RUNS[1]), first.preference(RUNS[1], RUNS[0])
    assert forth + back == pytest.approx(1.0)
    assert [held_out(x) for x in labels] == [held_out(x) for x in turned]


def test_equal_draws_two_runs_together():
    a, b = RUNS[0], RUNS[1]
    before = untrained(RUNS)
    after = fit(before, [replace(honest(a, b), answer="equal")] * 20)
    gap = [abs(x.values([a])[0] - x.values([b])[0]) for x in (before, after)]
    assert gap[1] < 0.2 * gap[0]


def test_a_promise_holds_against_every_label():
    """The user said that less of `b` is better, and then always answers the other way round."""
    runs = [
        Observation({"a": 0.0, "b": float(i), "c": 0.0, "d": 0.0}, "", str(i)) for i in range(20)
    ]
    wrong = [Preference(x, y, "b") for x, y in pairwise(runs)]
    values = fit(untrained(runs), wrong * 5).values(runs)
    assert values == sorted(values, reverse=True)


def test_a_fit_is_the_same_every_time_and_seeds_differ():
    labels = pairs(RUNS[:40])
    made = [fit(untrained(RUNS), labels, seed=seed).values(RUNS[:5]) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


def test_members_disagree_less_where_labels_are():
    """Labels that differ in `a` only settle how `a` counts, and say nothing of `c`."""
    draw = random.Random(1)
    ones = [
        Observation({"a": draw.gauss(0, 1), "b": 0.0, "c": 0.0, "d": 0.0}, "", str(i))
        for i in range(80)
    ]
    reward = fit(untrained(RUNS), pairs(ones))
    told = [replace(RUNS[0], values={"a": x, "b": 0.0, "c": 0.0, "d": 0.0}) for x in (0.5, -0.5)]
    open_ = [replace(RUNS[0], values={"a": 0.0, "b": 0.0, "c": x, "d": 0.0}) for x in (0.5, -0.5)]

    def spread(pair: list[Observation]) -> float:
        total_EB = reward.estimates(pair).total_EB
        return float(torch.sigmoid(total_EB[:, 0] - total_EB[:, 1]).std(0))

    assert spread(told) < 0.5 * spread(open_)


# --- which questions ------------------------------------------------------------------------


def test_it_asks_where_members_disagree_and_nothing_twice():
    reward = fit(untrained(RUNS), pairs(RUNS[:40]))
    asked = pairs_to_ask(reward, RUNS[:30], 5)

    def spread(pair: Pair) -> float:
        total_EB = reward.estimates(pair).total_EB
        return float(torch.sigmoid(total_EB[:, 0] - total_EB[:, 1]).std(0))

    every = [(x, y) for i, x in enumerate(RUNS[:30]) for y in RUNS[:i]]
    mean = sum(map(spread, every)) / len(every)
    assert sum(map(spread, asked)) / 5 > 1.5 * mean
    assert spread(asked[0]) == max(map(spread, every))
    answered = {tuple(sorted((x.run, y.run))) for x, y in asked}
    again = pairs_to_ask(reward, RUNS[:30], 5, answered=answered)
    assert answered.isdisjoint(tuple(sorted((x.run, y.run))) for x, y in again)


def test_before_any_fit_it_asks_about_the_runs_that_differ_most():
    runs = make_runs(10, seed=4)
    far = Observation({"a": 9.0, "b": 9.0, "c": 9.0, "d": 9.0}, "", "far")
    asked = pairs_to_ask(untrained(runs), [*runs, far], 1)
    assert far in asked[0]


def test_runs_that_look_the_same_are_not_worth_a_question():
    same = [replace(RUNS[0], run=str(i)) for i in range(5)]
    assert pairs_to_ask(untrained(RUNS), same, 3) == []
    assert pairs_to_ask(untrained(RUNS), [RUNS[0]], 3) == []


def test_the_order_of_the_two_says_nothing():
    asked = pairs_to_ask(untrained(RUNS), RUNS[:40], 40)
    left = sum(worth(a) > worth(b) for a, b in asked)
    assert 8 <= left <= 32


def test_single_runs_to_rate_are_those_members_disagree_on():
    reward = fit(untrained(RUNS), pairs(RUNS[:20]))
    (first, *_) = runs_to_rate(reward, RUNS, 3)
    spread = reward.estimates(RUNS).total_EB.std(0)
    assert first == RUNS[int(spread.argmax())]
    assert first not in runs_to_rate(reward, RUNS, 3, answered={(first.run,)})


# --- trust ----------------------------------------------------------------------------------


def test_no_value_on_the_replay_set_moves_further_than_delta():
    guided = GuidedReward(
        untrained(RUNS), replay=RUNS, trust=TrustSettings(delta=0.25, tolerance=99.0)
    )
    assert guided.learn(pairs(RUNS[:40])).outcome == "accepted"  # nothing to stay near yet
    before = guided.reward.values(RUNS)
    decision = guided.learn(pairs(RUNS[40:200]))
    moved = [abs(x - y) for x, y in zip(before, guided.reward.values(RUNS), strict=True)]
    assert decision.outcome == "shortened"
    assert 0 < decision.share < 1
    assert 0.2 < max(moved) <= 0.25
    assert decision.largest_change == pytest.approx(max(moved))


def perverse(label: Label) -> Label:
    assert isinstance(label, Preference)
    return replace(label, answer="b" if label.answer == "a" else "a", by="adversary")


def test_labels_that_make_it_predict_worse_are_rolled_back(tmp_path: Path):
    log = tmp_path / "decisions.jsonl"
    guided = GuidedReward(untrained(RUNS), log=log, trust=TrustSettings(delta=99.0))
    guided.learn(pairs(RUNS[:80]))
    good = guided.reward
    lies = [label for label in map(perverse, pairs(make_runs(300, seed=9))) if not held_out(label)]
    decision = guided.learn(lies)
    assert decision.outcome == "rolled back"
    assert decision.after.nats > decision.before.nats + 0.05
    assert guided.reward is good
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["outcome"] for row in logged] == ["accepted", "rolled back"]
    assert logged[1]["before"]["labels"] >= 4
    assert logged[1]["after"]["agreement"] < logged[1]["before"]["agreement"]


def test_honest_labels_are_not_rolled_back():
    guided = GuidedReward(untrained(RUNS), trust=TrustSettings(delta=99.0))
    outcomes = [guided.learn(pairs(RUNS[i : i + 40])).outcome for i in range(0, 240, 40)]
    assert outcomes == ["accepted"] * 6
    assert guided.decisions[-1].after.nats < guided.decisions[0].before.nats


def test_held_out_labels_are_never_fitted_to():
    labels = pairs(RUNS)
    guided = GuidedReward(untrained(RUNS))
    decision = guided.learn(labels)
    assert decision.fitted + decision.after.labels == len(labels) == 120
    assert 12 <= decision.after.labels <= 36
    kept = [label for label in labels if not held_out(label)]
    assert guided.reward.values(RUNS) == fit(untrained(RUNS), kept).values(RUNS)


def test_an_answer_that_was_changed_counts_once_and_skipped_ones_never():
    guided = GuidedReward(untrained(RUNS))
    label = next(x for x in pairs(RUNS) if not held_out(x))
    assert isinstance(label, Preference)
    decision = guided.learn([label, replace(label, answer="equal")])
    assert decision.fitted == 1
    skipped = GuidedReward(untrained(RUNS))
    decision = skipped.learn([replace(label, answer="skip")])
    assert decision.outcome == "unchanged"
    assert label.question not in {tuple(sorted((x.run, y.run))) for x, y in skipped.ask(RUNS, 9)}


def test_settings_that_trust_nothing_are_refused():
    with pytest.raises(UsageError, match="`delta` is above 0"):
        TrustSettings(delta=0)


# --- both levels ----------------------------------------------------------------------------


async def test_two_levels_take_turns_and_trajectories_of_a_real_policy_will_do():
    order: list[str] = []
    guided = GuidedReward(untrained(RUNS))

    async def inner(reward: LearnedReward) -> list[Trajectory]:
        order.append(f"inner {reward.fits}")
        seed = len(order)
        return [
            Trajectory("same id", {}, [signal_event(Signal(n, v)) for n, v in run.values.items()])
            for run in make_runs(8, seed=seed)
        ]

    async def ask(asked):
        order.append(f"ask {len(asked)}")
        return [honest(a, b) for a, b in asked]

    decisions = await bilevel(
        guided, inner, ask, rounds=3, labels_per_round=4, runs=RUNS[:20], replayed=24
    )
    assert order == ["ask 4", "inner 1", "ask 4", "inner 2", "ask 4", "inner 3"]
    assert len(decisions) == 3
    assert len({label.question for label in guided.labels}) == 12
    assert len(guided.replay) == 24
    with pytest.raises(UsageError, match="at least 1"):
        await bilevel(guided, inner, ask, rounds=0, labels_per_round=1)
