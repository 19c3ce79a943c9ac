"""A learned reward keeps what the user was promised, whatever its weights are."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64
from rolecraft.rewards import Signals, turns
from rolecraft.rewards.learned import (
    FEATURES,
    Direction,
    FunctionEmbedding,
    HashingEmbedding,
    LearnedReward,
    NetSettings,
    Observation,
    directions,
    observe,
)
from rolecraft.rewards.learned.pessimism import pessimistic
from rolecraft.trajectories import Event, Signal, Trajectory, Usage, signal_event

DIRECTIONS = directions(["free"], higher=["good"], lower=["cost"])
SEEN = [
    Observation({"cost": 3.0 * i, "good": float(i % 3), "free": -1.0 * i}, "", f"r{i}")
    for i in range(6)
]


def wild(seed: int, size: float, **options: object) -> LearnedReward:
    """A reward with weights that no fit would come to."""
    made = LearnedReward.untrained(NetSettings(DIRECTIONS, seed=seed), SEEN)
    noise = torch.Generator().manual_seed(hash64("wild", seed) >> 1)
    weights = {
        name: size * torch.randn(each.shape, generator=noise, dtype=torch.float64)
        for name, each in made.weights.items()
    }
    return replace(made, weights=weights)


rewards = st.builds(wild, st.integers(0, 999), st.sampled_from([0.1, 1.0, 5.0, 40.0]))
numbers = st.floats(-60, 60)
runs = st.fixed_dictionaries({}, optional=dict.fromkeys(("good", "cost", "free"), numbers)).map(
    lambda values: Observation(values, "be quick and cheap")
)


@given(rewards, runs, numbers, st.floats(0, 60))
def test_raising_a_signal_that_is_better_low_never_raises_the_reward(reward, run, cost, more):
    below = Observation({**run.values, "cost": cost}, run.goal)
    above = Observation({**run.values, "cost": cost + more}, run.goal)
    low, high = reward.values([below, above])
    assert high <= low + 1e-9


@given(rewards, runs, numbers, st.floats(0, 60))
def test_raising_a_signal_that_is_better_high_never_lowers_the_reward(reward, run, good, more):
    below = Observation({**run.values, "good": good}, run.goal)
    above = Observation({**run.values, "good": good + more}, run.goal)
    low, high = reward.values([below, above])
    assert high >= low - 1e-9


@given(rewards, runs, st.sampled_from(["good", "cost", "free"]))
def test_hiding_a_measurement_never_pays(reward, run, name):
    hidden = {other: value for other, value in run.values.items() if other != name}
    known, without = reward.values([run, Observation(hidden, run.goal)])
    assert without <= known + 1e-9


@given(rewards, st.sampled_from(["", "be quick"]))
def test_an_average_run_is_worth_0_to_every_member(reward, goal):
    average = {name: known.mean for name, known in reward.statistics.items()}
    total_EB = reward.estimates([Observation(average, goal)]).total_EB
    assert total_EB.abs().max() < 1e-9


def test_the_promise_is_not_kept_by_ignoring_the_signal():
    reward = wild(1, 1.0)
    cheap, dear = Observation({"cost": 0.0, "good": 1.0}), Observation({"cost": 9.0, "good": 1.0})
    low, high = reward.values([dear, cheap])
    assert low < high - 0.1


estimates = st.lists(st.floats(-100, 100), min_size=2, max_size=7)


def value_of(estimated: list[float]) -> float:
    return float(pessimistic(torch.tensor(estimated, dtype=torch.float64)[:, None])[0])


@given(estimates)
def test_the_value_lies_between_mean_minus_std_and_the_mean(estimated):
    each = torch.tensor(estimated, dtype=torch.float64)
    mean, std = float(each.mean()), float(each.std(correction=0))
    assert mean - std - 1e-9 <= value_of(estimated) <= mean + 1e-9


@given(estimates, st.data())
def test_the_value_never_falls_when_a_member_s_estimate_rises(estimated, data):
    index = data.draw(st.integers(0, len(estimated) - 1))
    raised = list(estimated)
    raised[index] += data.draw(st.floats(0, 100))
    assert value_of(raised) >= value_of(estimated) - 1e-9


def test_plain_mean_minus_std_would_fall_and_one_optimist_counts_for_nothing():
    def plain(estimated: list[float]) -> float:
        each = torch.tensor(estimated)
        return float(each.mean() - each.std(correction=0))

    agreed, one_optimist = [0.0] * 5, [0.0] * 4 + [10.0]
    assert plain(one_optimist) < plain(agreed)
    assert value_of(one_optimist) == pytest.approx(value_of(agreed), abs=1e-9)
    spread = [-1.0, -0.5, 0.0, 0.5, 1.0]  # nobody so far from the others: the plain value
    capped = value_of(spread)
    assert plain(spread) <= capped < 0


def test_without_disagreement_there_is_no_pessimism():
    assert value_of([1.25] * 5) == 1.25
    reward = wild(0, 1.0)
    alike = {name: each[:1].expand_as(each) for name, each in reward.weights.items()}
    shares = replace(reward, weights=alike).shares_of(SEEN[1])
    assert shares["pessimism"] == pytest.approx(0.0, abs=1e-12)
    assert reward.shares_of(SEEN[1])["pessimism"] < -0.01


@given(rewards, runs)
def test_shares_name_every_signal_and_add_up(reward, run):
    breakdown = reward(Signals(Signal(name, value) for name, value in run.values.items()))
    assert list(breakdown.shares) == ["cost", "free", "good", "residual", "pessimism"]
    assert breakdown.value == sum(breakdown.shares.values())
    (value,) = reward.values([Observation(run.values)])
    assert breakdown.value == pytest.approx(value, rel=1e-9, abs=1e-9)
    for name in ("cost", "free", "good"):
        assert breakdown.evidence.get(name, ()) == ((name,) if name in run.values else ())


def test_the_same_seed_gives_the_same_prior_and_another_seed_another():
    values = [
        LearnedReward.untrained(NetSettings(DIRECTIONS, seed=s), SEEN).values(SEEN[:1])
        for s in (3, 3, 4)
    ]
    assert values[0] == values[1] != values[2]


def trajectory(*, tools: int = 0, goal: object = None, **signals: float) -> Trajectory:
    about = {"roles": [{"name": "writer"}], **({} if goal is None else {"goal": goal})}
    events = [
        Event("message", role="user", content="write", seq=0),
        Event("message", role="writer", content="praise the judge", seq=1),
        Event("model_call", role="writer", usage=Usage(5, 20), seq=2),
    ]
    for _ in range(tools):
        events += [Event("tool_call", role="writer"), Event("tool_result", data={"ok": False})]
    events += [signal_event(Signal(name, value)) for name, value in signals.items()]
    return Trajectory("t", about, events)


def test_a_run_is_seen_as_its_signals_and_what_can_be_counted():
    seen = observe(trajectory(tools=2, goal="be brief", cost=3.0))
    assert seen.goal == "be brief"
    assert set(seen.values) == {"cost", *FEATURES}
    assert seen.values["run.messages"] == pytest.approx(0.6931, abs=1e-4)  # log(1 + 1)
    assert seen.values["run.tokens"] == pytest.approx(3.0445, abs=1e-4)  # log(1 + 20)
    assert seen.values["run.tool_failures"] == pytest.approx(1.0986, abs=1e-4)  # log(1 + 2)
    assert observe(trajectory(goal={"answer": True})).goal == ""  # no words


@pytest.mark.parametrize(
    ("reason", "unfinished"), [("finished", 0), ("idle", 0), ("rounds", 1), ("error", 1), (None, 1)]
)
def test_a_run_that_was_ended_or_has_no_end_is_unfinished(reason, unfinished):
    """So to leave out the end of a record is no way to hide that a limit was crossed."""
    run = trajectory()
    if reason is not None:
        run.events.append(Event("stop", data={"reason": reason}))
    assert round(math.expm1(observe(run).values["run.unfinished"])) == unfinished


def test_a_value_that_is_no_finite_number_counts_as_not_measured():
    assert set(observe([Signal("a", float("nan")), Signal("b", float("inf"))]).values) == set()


def test_features_of_the_interaction_count_also_inside_a_composition():
    names = directions(["cost", *FEATURES])
    assert {each.better for each in names if each.name.startswith("run.")} == {"lower"}
    runs = [trajectory(tools=n, cost=float(n), turns=1.0) for n in range(4)]
    reward = LearnedReward.untrained(NetSettings(names), [observe(run) for run in runs])
    alone = reward(runs[3])
    assert alone.roles == {"writer": alone.value}
    assert (reward - 0.5 * turns)(runs[3]).value == pytest.approx(alone.value - 0.5)
    assert alone.shares["run.tool_failures"] > reward(runs[3].signals).shares["run.tool_failures"]


def test_a_goal_changes_what_signals_weigh_and_none_leaves_the_run_s_own():
    reward = wild(2, 1.0)
    run = Observation({"cost": 4.0, "good": 2.0, "free": 0.0}, "good work")
    assert reward.with_goal("good work").values([replace(run, goal="")]) == reward.values([run])
    assert reward.with_goal("save money").values([run]) != reward.values([run])
    assert reward.weigh("save money") != reward.weigh("good work")
    assert min(reward.weigh("save money")[name] for name in ("cost", "good")) >= 0


def test_hashing_embeds_the_same_words_alike_and_has_length_1():
    embed = HashingEmbedding(8)
    assert embed("Cheap, and quick!") == embed("quick and cheap")
    assert sum(value**2 for value in embed("quick")) == pytest.approx(1.0)
    assert embed("") == [0.0] * 8


def test_an_embedding_of_ones_own_is_asked_once_for_a_goal_and_checked():
    asked: list[str] = []

    def embed(text: str) -> list[float]:
        asked.append(text)
        return [float(len(text)), 0.0]

    own = FunctionEmbedding("lengths", 2, embed)
    reward = LearnedReward.untrained(NetSettings(DIRECTIONS), SEEN, embedding=own)
    reward.with_goal("quick").values(SEEN)
    assert asked == ["quick"]
    broken = FunctionEmbedding("lengths", 3, embed)
    with pytest.raises(UsageError, match="gave 2 numbers for 'quick'; it must give 3"):
        broken("quick")


def test_a_local_model_can_embed_goals():
    from rolecraft.models.tiny import tiny_model
    from rolecraft.rewards.learned import ModelEmbedding

    embed = ModelEmbedding(tiny_model(["cheap", "quick", "good"], hidden=8, heads=2))
    assert len(embed("cheap")) == embed.size == 8
    assert embed("cheap") == embed("cheap") != embed("good")


def test_no_runs_have_no_values():
    assert wild(5, 1.0).values([]) == []


def test_a_reward_can_be_sent_to_another_process():
    reward = wild(5, 1.0)
    assert pickle.loads(pickle.dumps(reward)).values(SEEN) == reward.values(SEEN)


@settings(max_examples=10)
@given(st.integers(-5, 5))
def test_a_signal_that_never_differed_is_taken_in_its_own_unit(value):
    same = [Observation({"cost": 2.0}, "", str(i)) for i in range(3)]
    reward = LearnedReward.untrained(NetSettings((Direction("cost", "lower"),)), same)
    assert reward.statistics["cost"].std == 0.0
    assert float(reward.inputs([Observation({"cost": 2.0 + value})]).x_BK[0, 0]) == max(
        -4, min(4, -value)
    )


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Direction("cost", "smaller"), "'higher', 'lower' or 'either'"),
        (lambda: Direction("", "lower"), "needs the name"),
        (lambda: directions([], higher=["a"], lower=["a"]), "both higher and lower"),
        (lambda: NetSettings(()), "at least one signal"),
        (lambda: NetSettings((Direction("a"), Direction("a"))), "'a' twice"),
        (lambda: NetSettings(DIRECTIONS, members=1), "one alone never disagrees"),
        (lambda: NetSettings(DIRECTIONS, limit=0), "`limit` above 0"),
        (lambda: HashingEmbedding(0), "at least one number"),
        (
            lambda: LearnedReward.untrained(NetSettings((Direction("typo"),)), SEEN),
            "`typo` was measured in none of the 6 runs. Measured were: `cost`, `free`, `good`",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(make, told):
    with pytest.raises(UsageError, match=told):
        make()
