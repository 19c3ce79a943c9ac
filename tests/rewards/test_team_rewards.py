"""Rewards that are not the same for all roles."""

from __future__ import annotations

import pytest

from rolecraft.errors import UsageError
from rolecraft.rewards import Counterfactual, MissingSignal, TeamMix, signal
from rolecraft.trajectories import Signal, Trajectory, signal_event

solved = signal("solved")


def run(*log: Signal) -> Trajectory:
    trajectory = Trajectory("run", {"roles": [{"name": "planner"}, {"name": "coder"}]})
    trajectory.write([signal_event(each) for each in log])
    return trajectory


BOTH = (
    Signal("solved", 1.0),
    Signal("tidy", 0.5, role="planner"),
    Signal("tidy", 0.0, role="coder"),
)


def test_a_role_gets_its_own_part_and_the_rest_of_the_teams() -> None:
    breakdown = TeamMix(signal("tidy"), solved, alpha=0.25)(run(*BOTH))
    assert breakdown.value == 1.0
    assert breakdown.shares == {"solved": 1.0}
    assert breakdown.roles == {"planner": 0.875, "coder": 0.75}
    assert breakdown.role_shares["planner"] == {"solved": 0.75, "tidy@local": 0.125}
    assert breakdown.evidence["tidy@local"] == ("tidy",)


def test_the_mix_may_differ_by_role() -> None:
    breakdown = TeamMix(signal("tidy"), solved, alpha={"planner": 1.0})(run(*BOTH))
    assert breakdown.roles == {"planner": 0.5, "coder": 1.0}
    with pytest.raises(UsageError, match="from 0 to 1"):
        TeamMix(signal("tidy"), solved, alpha={"planner": 1.5})


def test_a_role_of_which_nothing_was_measured_has_no_local_reward() -> None:
    with pytest.raises(MissingSignal, match="'tidy' is not known"):
        TeamMix(signal("tidy"), solved, alpha=0.5)(run(*BOTH[:2]))


@pytest.mark.parametrize("coder", [0, 1])
@pytest.mark.parametrize("planner", [0, 1])
def test_counterfactual_credit_is_the_difference_that_a_role_made(planner: int, coder: int) -> None:
    """Both must act for 1, either alone brings 0.25: without a role the other is left alone."""
    pay = {0: 0.0, 1: 0.25, 2: 1.0}
    both = run(
        Signal("solved", pay[planner + coder]),
        Signal("counterfactual", pay[coder], role="planner"),
        Signal("counterfactual", pay[planner], role="coder"),
    )
    breakdown = Counterfactual("coder", Counterfactual("planner", solved))(both)
    assert breakdown.value == pay[planner + coder]
    assert breakdown.roles == {
        "planner": pay[planner + coder] - pay[coder],
        "coder": pay[planner + coder] - pay[planner],
    }


def test_a_counterfactual_is_given_and_never_guessed() -> None:
    assert Counterfactual("coder", solved, 0.4)(run(*BOTH)).role_shares["coder"] == {
        "solved": 1.0,
        "without:coder": -0.4,
    }
    with pytest.raises(MissingSignal, match="Signal of `coder` 'counterfactual' is not known"):
        Counterfactual("coder", solved)(run(*BOTH))
