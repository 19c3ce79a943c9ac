"""Settings of credit: what goes together, by name, and what is refused before any run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from rolecraft.errors import InvalidAnswer, SandboxError, UnknownName, UsageError
from rolecraft.rollouts.result import Rollout
from rolecraft.training import Algorithm
from rolecraft.training.algorithms.presets import algorithm
from rolecraft.training.credit import CREDITS, Blame, Credit, Ema, GroupKey, assign, credit

PLAIN = Algorithm(advantage="dr_grpo")


@pytest.mark.parametrize("name", CREDITS)
def test_every_kind_of_credit_goes_with_an_algorithm_and_credits_only_actions(
    by_hand: Any, name: str
) -> None:
    how = algorithm("reinforce++", kl=None) if name == "mappo" else PLAIN
    found = [by_hand("aba", reward) for reward in (0.0, 1.0)]
    scored = assign(found, how, credit=credit(name), without=[{"a": 0.5, "b": 0.25}] * 2)
    assert len(scored.sequences) == 4
    assert sum(scored.shares.values()) == pytest.approx(1.0)
    for sequence in scored.sequences:
        for advantage, action in zip(sequence.advantages, sequence.action_mask, strict=True):
            assert action or advantage == 0.0


def test_a_kind_of_credit_is_found_by_name_and_changed() -> None:
    assert credit("at_grpo", discount=0.5) == replace(CREDITS["at_grpo"], discount=0.5)
    with pytest.raises(UnknownName, match="at_grpo"):
        credit("at_gpro")
    with pytest.raises(UnknownName, match="discount"):
        credit("at_grpo", discont=0.5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"whiten": "batch"}, "'role', None"),
        ({"timeline": "teams"}, "'role', 'team'"),
        ({"timeline": "team"}, "one stream of rewards"),
        ({"baseline": "mean"}, "an `Ema`"),
        ({"discount": 1.5}, "from 0 to 1"),
        ({"steps": {"x": float("nan")}}, "'x'"),
        ({"ungraded": float("inf")}, "ungraded"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Credit(**wrong)


@pytest.mark.parametrize("wrong", [{"decay": 1.0}, {"decay": -0.1}, {"start": float("nan")}])
def test_an_average_that_never_moves_or_is_no_number_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="Ema"):
        Ema(**wrong)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        (PLAIN, credit("mappo"), "what follows an action"),
        (Algorithm(advantage="returns"), credit("at_grpo"), "compares turns"),
        (algorithm("gigpo"), credit("at_grpo"), "compares turns already"),
        (algorithm("ppo", kl=None), credit("rae"), "is a baseline"),
        (Algorithm(advantage="returns", gamma=0.9), credit("rae"), "would not discount"),
        (algorithm("dapo"), credit("rae"), "dynamic_sampling"),
        (algorithm("maxrl"), Credit(baseline="none"), "baseline of its own kind"),
        (Algorithm(), Credit(whiten="role"), "scales already"),
        (Algorithm(advantage="dr_grpo", whiten=True), Credit(whiten="role"), "scales already"),
    ],
)
def test_credit_that_cannot_go_with_an_algorithm_is_refused_with_the_reason(
    how: Algorithm, kind: Credit, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        kind.check(how)
    with pytest.raises(UsageError, match=words):
        assign([], how, credit=kind)


def test_nothing_played_is_nothing_scored() -> None:
    for name in CREDITS:
        how = algorithm("reinforce++", kl=None) if name == "mappo" else PLAIN
        scored = assign([], how, credit=credit(name), without=[])
        assert (scored.sequences, scored.groups, scored.shares) == ([], 0, {})


def test_with_dynamic_sampling_tasks_that_say_nothing_are_left_out_and_named(by_hand: Any) -> None:
    found = [
        by_hand("ab", reward, task=task, roles={"a": reward, "b": 1.0})
        for task, reward in (("x", 0.0), ("x", 1.0), ("y", 1.0), ("y", 1.0))
    ]
    how = Algorithm(advantage="dr_grpo", dynamic_sampling=True)
    scored = assign(found, how)
    assert [s.name.split("#")[0] for s in scored.sequences] == ["x"] * 4
    assert [task.id for task in scored.silent_tasks] == ["y"]
    assert (scored.groups, scored.silent_groups) == (4, 3)
    assert len(assign(found, PLAIN).sequences) == 8


def rollout(played: Any, **how: Any) -> Rollout[Any, Any]:
    return Rollout(index=0, item=played.task, trajectory=played.trajectory, **how)


def test_a_run_that_the_team_broke_off_counts_for_what_it_is_said_to_be_worth(
    by_hand: Any,
) -> None:
    """And one that a machine broke off is played again, whatever was recorded."""
    good, bad, lost = (by_hand("a", 1.0) for _ in "123")
    found = [
        rollout(good, ended="finished", episode=good),
        rollout(bad, ended="team", error=InvalidAnswer("no number")),
        rollout(lost, ended="environment", error=SandboxError("gone")),
        rollout(lost, ended="grading", error=OSError("gone")),
    ]
    left_out = assign(found, PLAIN)
    assert (len(left_out.sequences), left_out.ungraded, len(left_out.refill)) == (1, ["task"], 2)
    counted = assign(found, PLAIN, credit=Credit(ungraded=0.0))
    assert [max(s.advantages, key=abs) for s in counted.sequences] == [0.5, -0.5]
    assert (counted.ungraded, len(counted.refill)) == ([], 2)


def test_findings_are_one_list_an_episode(by_hand: Any) -> None:
    with pytest.raises(UsageError, match="findings"):
        assign([by_hand("a", 1.0)], PLAIN, credit=Credit(blame=Blame()), findings=[])


def test_settings_are_written_alike_in_every_process() -> None:
    """A training that goes on compares them with those that it began with."""
    mine = GroupKey("mine", lambda unit: unit.role)
    assert " at 0x" not in repr(Credit(group=mine, baseline=Ema(), blame=Blame()))


def test_settings_are_read_without_torch() -> None:
    code = (
        "import sys; from rolecraft.training.credit import credit; credit('blame');"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
