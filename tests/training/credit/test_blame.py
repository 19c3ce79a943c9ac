"""Failure-attributed credit: advantage moves to who was at fault, within bounds, or not at all."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UnknownName, UsageError
from rolecraft.rollouts import collect, episodes
from rolecraft.scenarios.relay import relay
from rolecraft.training import Algorithm, TrainingSequence
from rolecraft.training.credit import Blame, Credit, assign
from rolecraft.training.credit.blame import moved
from rolecraft.trajectories.events import FailureFinding

Credited = Callable[[TrainingSequence], list[float]]
PLAIN = Algorithm(advantage="dr_grpo")

turns = st.lists(
    st.tuples(st.floats(-10, 10, allow_subnormal=False), st.booleans()), min_size=1, max_size=8
)
blames = st.builds(
    lambda share, most, charge, conserve: Blame(
        share=share, most=most, charge=charge * most, conserve=conserve
    ),
    share=st.floats(0, 1),
    most=st.floats(0, 5),
    charge=st.one_of(st.just(0.0), st.floats(0, 1)),
    conserve=st.booleans(),
)


def finding(*events: int, role: str = "", **more: Any) -> FailureFinding:
    more.setdefault("verdict", "present")
    more.setdefault("quote", f"said {events[0] // 2}" if events else "")
    return FailureFinding("task_spec", events=events, role=role, source="detector.test", **more)


def bits(values: Sequence[float]) -> bytes:
    return struct.pack(f"{len(values)}d", *values)


@given(turns, blames)
def test_no_turn_is_moved_further_than_the_bound(turns: Any, blame: Blame) -> None:
    advantages, at_fault = zip(*turns, strict=True)
    for before, shift in zip(advantages, moved(advantages, at_fault, blame=blame), strict=True):
        assert abs(shift) <= blame.most * (1 + 1e-12) + 1e-300  # denormal numbers round more
        if before * (before + shift) < 0:  # it changed its sign
            assert abs(before + shift) <= blame.most * (1 + 1e-12)


@given(turns, blames)
def test_the_sum_over_an_episode_stays_what_it_is(turns: Any, blame: Blame) -> None:
    advantages, at_fault = zip(*turns, strict=True)
    shifts = moved(advantages, at_fault, blame=replace(blame, conserve=True))
    assert sum(shifts) == pytest.approx(0.0, abs=1e-9)


@given(turns, blames)
def test_failing_never_pays_and_who_is_at_fault_never_gains(turns: Any, blame: Blame) -> None:
    advantages, at_fault = zip(*turns, strict=True)
    shifts = moved(advantages, at_fault, blame=replace(blame, charge=0.0))
    for before, shift, fault in zip(advantages, shifts, at_fault, strict=True):
        assert shift <= 0 if fault else shift >= 0
        if before < 0 and not fault and all(a <= 0 for a in advantages):
            assert before + shift <= 0
        if before > 0 and fault and all(a >= 0 for a in advantages):
            assert before + shift >= 0


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.booleans(), blames)
def test_where_all_or_none_are_at_fault_nothing_moves(
    advantages: list[float], fault: bool, blame: Blame
) -> None:
    assert not any(moved(advantages, [fault] * len(advantages), blame=blame))


def test_the_equation_by_hand() -> None:
    """Half of the punishments of 1 and 3 go to the one at fault, which is scaled to 1."""
    free = Blame(share=0.5, most=10.0)
    assert moved([-2.0, -1.0, -3.0], [True, False, False], blame=free) == [-2.0, 0.5, 1.5]
    assert moved([-2.0, -1.0, -3.0], [True, False, False], blame=Blame()) == [-1.0, 0.25, 0.75]
    cut = Blame(conserve=False)
    assert moved([-2.0, -1.0, -3.0], [True, False, False], blame=cut) == [-1.0, 0.5, 1.0]
    assert moved([2.0, 1.0], [True, False], blame=free) == [-1.0, 1.0]
    charging = Blame(share=0.0, charge=0.5)
    assert moved([0.0, 0.0, 0.0], [True, False, False], blame=charging) == [-0.5, 0.25, 0.25]


@given(
    order=st.text("abc", min_size=1, max_size=5),
    rewards=st.lists(st.floats(-2, 2), min_size=2, max_size=4),
    at=st.lists(st.integers(0, 4), max_size=3),
    blame=blames,
)
def test_an_episodes_advantages_are_bounded_and_conserved_token_by_token(
    by_hand: Any, credited: Credited, order: str, rewards: list[float], at: list[int], blame: Blame
) -> None:
    blame = replace(blame, conserve=True, findings="all")
    found = [by_hand(order, reward) for reward in rewards]
    said = [[finding(2 * n, role=order[n]) for n in at if n < len(order)] for _ in found]
    before = assign(found, PLAIN).sequences
    after = assign(found, PLAIN, credit=Credit(blame=blame), findings=said).sequences
    for number in range(len(found)):
        sums = []
        for sequences in (before, after):
            mine = [s for s in sequences if s.name.startswith(f"task#{number}:")]
            sums.append(sum(value for sequence in mine for value in credited(sequence)))
        assert sums[0] == pytest.approx(sums[1], abs=1e-9)
    for one, other in zip(before, after, strict=True):
        for a, b in zip(one.advantages, other.advantages, strict=True):
            assert abs(a - b) <= blame.most + 1e-9


def test_advantage_moves_from_the_others_to_the_role_and_the_step_at_fault(
    by_hand: Any, credited: Credited
) -> None:
    """Turn 1 of `a` (event 4) made the first attempt fail; b and a's first turn are relieved."""
    found = [by_hand("aba", 0.0), by_hand("aba", 1.0)]
    said = [[finding(5, role="a")], []]
    how = Credit(blame=Blame(share=0.5))
    scored = assign(found, PLAIN, credit=how, findings=said)
    assert [credited(s) for s in scored.sequences] == [[-0.25, -1.0], [-0.25], [0.5, 0.5], [0.5]]
    assert (scored.blamed.moved, scored.blamed.unplaced, scored.blamed.unverified) == (1, 0, 0)  # type: ignore[union-attr]


def test_off_by_default_and_bit_for_bit_the_same_without_anything_to_move(by_hand: Any) -> None:
    assert Credit().blame is None
    found = [by_hand("aba", 0.1), by_hand("aba", 1.3)]
    without = [s.advantages for s in assign(found, PLAIN).sequences]
    nothing: list[list[FailureFinding]] = [
        [],
        [finding(4, role="a", verdict="unknown"), finding(4, role="a", verdict="absent")],
        [finding(4, role="a", quote="never said")],
        [finding(4, role="b")],
        [finding(99, role="a")],
        [finding(role="a")],
        [finding(4, role="a", confidence=0.3)],
    ]
    for said in nothing:
        scored = assign(found, PLAIN, credit=Credit(blame=Blame(charge=0.5)), findings=[said, said])
        for before, sequence in zip(without, scored.sequences, strict=True):
            assert bits(before) == bits(sequence.advantages)
    other = Credit(blame=Blame(modes=["verification.absent"]))
    scored = assign(found, PLAIN, credit=other, findings=[[finding(4, role="a")], []])
    assert [s.advantages for s in scored.sequences] == without


def test_findings_that_do_not_hold_and_roles_that_are_not_trained_are_counted(by_hand: Any) -> None:
    found = [by_hand("ab", 0.0), by_hand("ab", 1.0)]
    for event in found[0].trajectory.events[2:4]:
        event.tokens = None  # b asked a model that records no tokens
    said = [[finding(2, role="b"), finding(0, role="a", quote="never said")], []]
    scored = assign(found, PLAIN, credit=Credit(blame=Blame()), findings=said)
    blamed = scored.blamed
    assert blamed is not None
    assert (blamed.moved, blamed.unplaced, blamed.unverified) == (0, 1, 1)


def test_the_first_failure_decides_unless_all_are_asked_for(
    by_hand: Any, credited: Credited
) -> None:
    found = [by_hand("abc", 0.0), by_hand("abc", 1.0)]
    said = [[finding(4, role="c"), finding(0, role="a")], []]
    decisive = assign(found, PLAIN, credit=Credit(blame=Blame()), findings=said).sequences
    assert [credited(s)[0] for s in decisive[:3]] == [-1.0, -0.25, -0.25]
    everything = Credit(blame=Blame(findings="all"))
    both = assign(found, PLAIN, credit=everything, findings=said).sequences
    assert [credited(s)[0] for s in both[:3]] == [-0.625, -0.25, -0.625]


async def test_without_findings_the_detectors_are_asked() -> None:
    """`relay` watches whether the planner reads the register that it is asked for."""
    model = relay.untrained(0)  # type: ignore[misc]
    task = relay.tasks.sample(1)[0]
    tasks = [replace(task, seed=seed) for seed in range(24)]
    found = episodes(await collect(relay, tasks, model=model))
    how = Credit(blame=Blame(modes=["task_spec"]))
    before = assign(found, PLAIN).sequences
    scored = assign(found, PLAIN, credit=how)
    wrong = [e.trajectory.signals[0].value == 0.0 for e in found for _ in "12"]
    for fault, one, other in zip(wrong, before, scored.sequences, strict=True):
        shift = sum(other.advantages) - sum(one.advantages)
        if not fault:
            assert shift == 0.0
        elif one.role == "planner":
            assert shift < 0
        else:
            assert shift > 0
    assert scored.blamed is not None
    assert scored.blamed.moved == sum(wrong) / 2 > 0


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"share": 1.5}, UsageError, "from 0 to 1"),
        ({"most": -1.0}, UsageError, "charge <= most"),
        ({"charge": 2.0}, UsageError, "charge <= most"),
        ({"findings": "first"}, UsageError, "'decisive'"),
        ({"modes": "task_spec"}, UsageError, "list of modes"),
        ({"modes": ["task_spek"]}, UnknownName, "task_spec"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    wrong: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Blame(**wrong)
